import type { Duplex } from "node:stream";
import { clock, type Timer } from "../lib/clock.ts";
import { atEndOfTurn } from "../lib/end-of-turn.ts";
import { hasMoreValues, NESTING_MAX, nestsTooDeep, tryParseJson } from "../lib/json.ts";
import { decodeUtf8 } from "../lib/long-text.ts";
import type { BudgetedMessage, MessageBudget } from "../lib/message-budget.ts";
import { Outbox } from "../lib/outbox.ts";
import { readingBounds } from "../lib/reading-bounds.ts";
import { ReadingTime } from "../lib/reading-time.ts";
import { fixed } from "../limits/fixed.ts";
import type { Limits } from "../limits/limits.ts";
import type { GuestEgress } from "../network/socket-relay.ts";
import { ProcessGroup, type Command, type Exit } from "../processes/process-group.ts";
import { processTree } from "../processes/process-tree.ts";
import type { Spawn } from "../processes/spawn/spawn.ts";
import type { GuestFailure } from "./executor.ts";
import { exitFailure, failure } from "./failures.ts";
import { eventValuesMax, toGuest, toHost } from "./guest/wire.mts";

/**
 * One child process with the guest runner in it, and the pipe to it. It owns starting, batched writes, bounded reads,
 * and the end. It knows neither programs nor calls: its listener interprets the frames.
 */
export interface GuestListener extends Pick<FrameHandlers, "onFrame" | "onLongResult"> {
  /** Called once, when none of its processes is alive. */
  onEnded(failure: GuestFailure): void;
}

/** The share of the serving process that all guests of one tenant use together. */
export interface GuestShare {
  readonly readingTime: ReadingTime;
  /** For incomplete frames. */
  readonly frames: MessageBudget;
}

export const backlogBounds = fixed({
  /** Bytes sent to a guest and not read yet: above this, nothing is read from the guest until it has read them all. */
  guestBacklogBytes: 16 * 1024 * 1024,
  /** How long that may take before its process is ended. */
  guestStalledMs: 60_000,
});

/** The most that one process may deliver in one event-loop turn, so that others are read as well. */
const TURN_BYTES = 256 * 1024;
/** The same for input that takes longer to handle, such as log lines with secrets to redact. */
const TURN_MS = 2;
/** Above this, no further long answer is read for the process, so that only one at a time waits in the pipe. */
const UNREAD_BYTES_MAX = 256 * 1024;
/** The tail of stderr, stored to explain why a process ended, and the length after which stderr is no longer read. */
const STDERR_TAIL_UNITS = 4_096;
const STDERR_UNITS_MAX = 256 * 1024;
export const traceBounds = fixed({
  /** How long a busy process has to print its stack. */
  traceMs: 200,
});

export class GuestProcess {
  /** Set once it has ended. */
  exit: Exit | undefined;
  /** Resolves when none of its processes is alive. */
  readonly exited: Promise<void>;
  readonly egress: { readonly outlet: GuestEgress; readonly folder: string } | undefined;
  readonly #group: ProcessGroup;
  readonly #reader: FrameReader;
  #listener: GuestListener;
  /** Undefined until the process has started. */
  #pipe: Duplex | undefined;
  readonly #outbox = new Outbox({ onTaken: () => this.#onTaken() });
  #drainListeners: (() => void)[] = [];
  #stderr = "";
  #readingTime = new ReadingTime();
  #turnBytes = 0;
  #holds = 0;
  /** Runs while the backlog of the process is too large. */
  #stallTimer: NodeJS.Timeout | undefined;
  #tracing: Timer | undefined;
  #verdict: GuestFailure | undefined;

  /** `egress` has its network outlet, and the folder of the outlet as the process sees it. */
  constructor(
    start: Spawn,
    command: Command,
    limits: FrameLimits,
    listener: GuestListener,
    egress?: { readonly outlet: GuestEgress; readonly folder: string },
  ) {
    this.egress = egress;
    this.#listener = listener;
    this.#reader = new FrameReader(limits, {
      onFrame: (frame, units) => this.#listener.onFrame(frame, units),
      onLongResult: (call, frame) => this.#listener.onLongResult?.(call, frame) ?? false,
      onFault: (message) => this.kill(failure("protocol", `its process ${message}`)),
    });
    let onExited!: () => void;
    this.exited = new Promise((resolve) => (onExited = resolve));
    this.#group = new ProcessGroup(start, command, ["ignore", "ignore", "pipe", "pipe"], {
      onStarted: ([, , stderr, pipe]) => this.#begin(stderr!, pipe!),
      onEnded: (exit) => {
        this.exit = exit;
        this.#reader.stop();
        clearTimeout(this.#stallTimer);
        this.#tracing?.clear();
        this.#listener.onEnded(this.#verdict ?? exitFailure(exit, this.#stderr));
        onExited();
      },
    });
  }

  /** Hands a spare process over to a program. `share` is that of its tenant; by default it has its own. */
  assign(listener: GuestListener, share?: GuestShare): this {
    this.#listener = listener;
    if (!share) return this;
    this.#reader.budget = share.frames;
    this.#readingTime = share.readingTime;
    return this;
  }

  /** Undefined until it has started. */
  get pid(): number | undefined {
    return this.#group.pid;
  }

  /** Bytes that the process has not read yet. */
  get backlogBytes(): number {
    return this.#outbox.bytes;
  }

  /** The tail of its stderr. */
  get stderr(): string {
    return this.#stderr;
  }

  /**
   * Writes one frame, without its newline, together with the others of this event-loop turn, and any bytes that belong
   * to it. Returns the number of the frame, for `mayHaveRead`.
   */
  send(frame: string, bytes?: Uint8Array): number {
    const number = bytes
      ? this.#outbox.add(`[${toGuest.withBytes},${bytes.length},${frame}]\n`, bytes)
      : this.#outbox.add(`${frame}\n`);
    if (this.backlogBytes > backlogBounds.guestBacklogBytes) this.#awaitDrain();
    return number;
  }

  /** True once the whole frame has been written to the pipe: the process cannot have read it earlier. */
  mayHaveRead(frame: number): boolean {
    return this.#outbox.mayHaveRead(frame);
  }

  /** Resolves when the process has read most of its backlog; undefined if it already has. */
  drained(): Promise<void> | undefined {
    if (this.backlogBytes <= UNREAD_BYTES_MAX) return undefined;
    return new Promise((resolve) => this.#drainListeners.push(resolve));
  }

  /** Charges the tenant's share, and pauses reading until the share has recovered. Returns the length of the pause. */
  spend(ms: number, now: number): number {
    const pauseMs = this.#readingTime.spend(ms, now);
    if (pauseMs > 0) this.#pauseFor(pauseMs);
    return pauseMs;
  }

  /** Stops reading until `release` has been called as often: the guest's pipe fills up and the guest blocks. */
  hold(): void {
    if (this.#holds++ === 0) this.#pipe?.pause();
  }

  release(): void {
    if (--this.#holds === 0) this.#pipe?.resume();
  }

  /** Ends the process group. The listener receives the first `verdict`. */
  kill(verdict: GuestFailure): void {
    this.#verdict ??= verdict;
    this.#reader.stop();
    this.#group.kill();
    this.#pipe?.destroy();
  }

  /**
   * Ends a process whose event loop does not respond, after giving it time to print the stack of the running code. The
   * stack is in `stderr` once the process has ended.
   */
  interrupt(verdict: GuestFailure): void {
    if (this.#verdict || this.pid === undefined) return this.kill(verdict);
    this.#verdict = verdict;
    this.#reader.stop();
    this.#stderr = "";
    this.#tracing = clock.after(traceBounds.traceMs, () => this.kill(verdict));
    try {
      // The innermost process is Node; those around it belong to the sandbox.
      process.kill(processTree(this.pid).at(-1)!, "SIGINT");
    } catch {
      // It has already ended.
    }
  }

  #begin(stderr: Duplex, pipe: Duplex): void {
    this.#pipe = pipe;
    this.#collectStderr(stderr);
    pipe.on("data", this.#onData);
    if (this.#holds > 0) pipe.pause();
    this.#outbox.open(pipe);
  }

  /** A process that does not read its answers may make no further requests. */
  #awaitDrain(): void {
    // Nothing is read from a process before it has started, and starting may take long.
    if (this.#stallTimer || !this.#pipe) return;
    this.hold();
    const { guestBacklogBytes, guestStalledMs } = backlogBounds;
    const message = `its process left more than ${guestBacklogBytes} bytes unread for ${guestStalledMs} ms`;
    this.#stallTimer = setTimeout(() => this.kill(failure("protocol", message)), guestStalledMs).unref();
  }

  #onTaken(): void {
    const waiting = this.backlogBytes;
    if (waiting <= UNREAD_BYTES_MAX) for (const resolve of this.#drainListeners.splice(0)) resolve();
    if (!this.#stallTimer || waiting > backlogBounds.guestBacklogBytes) return;
    clearTimeout(this.#stallTimer);
    this.#stallTimer = undefined;
    this.release();
  }

  readonly #onData = (chunk: Buffer): void => {
    if (this.#turnBytes === 0) atEndOfTurn(this.#endTurn);
    this.#turnBytes += chunk.length;
    const start = performance.now();
    this.#reader.push(chunk);
    const now = performance.now();
    if (now - start > TURN_MS) this.#turnBytes += TURN_BYTES;
    if (this.spend(now - start, now) === 0 && this.#turnBytes > TURN_BYTES) this.#pipe?.pause();
  };

  #pauseFor(ms: number): void {
    this.hold();
    setTimeout(() => this.release(), ms).unref();
  }

  readonly #endTurn = (): void => {
    const paused = this.#turnBytes > TURN_BYTES;
    this.#turnBytes = 0;
    if (paused && this.#holds === 0) this.#pipe?.resume();
  };

  #collectStderr(stderr: Duplex): void {
    let read = 0;
    stderr.setEncoding("utf8").on("data", (text: string) => {
      read += text.length;
      this.#stderr = (this.#stderr + text).slice(-STDERR_TAIL_UNITS);
      if (read > STDERR_UNITS_MAX) stderr.destroy();
    });
  }
}

interface FrameHandlers {
  /** `units`: the frame's length in UTF-16 code units. */
  onFrame(frame: readonly unknown[], units: number): void;
  /**
   * Takes a call's result whose frame is longer than `inlineBodyBytes`, as bytes of which only the beginning was
   * inspected. Returns false to have it parsed here.
   */
  onLongResult?(call: number, frame: Uint8Array): boolean;
  /** Called once; nothing is read afterwards. */
  onFault(message: string): void;
}

export type FrameLimits = Pick<Limits, "guestFrameBytes">;

const NEWLINE = 10;
/** Matches a frame whose value may be as long as a result, and captures the number of its call. */
const RESULT = new RegExp(`^\\[(?:${[toHost.text, toHost.json, toHost.bytes].join("|")}),(\\d{1,15}),`);
/** Shorter partial frames are not counted: there are at most as many as guests. */
const UNCOUNTED_BYTES = 64 * 1024;
/** The length of a line's beginning that `RESULT` is matched against. */
const BEGINNING_BYTES = 32;

/** The values in a frame other than its payload. */
const FRAME_VALUES = 16;
/** Matches the frames that may have very many values. */
const MANY = new RegExp(`^\\[(?:${[toHost.text, toHost.json, toHost.bytes, toHost.asks].join("|")}),`);

/**
 * Splits what a guest writes into frames: one JSON array per line. It enforces the size limit and bounds the work of
 * one event-loop turn. It trusts nothing: the first invalid frame is reported as a fault and ends the reading. It knows
 * neither processes nor calls.
 */
export class FrameReader {
  /** The memory budget of the guest's tenant; nothing is counted before the guest is assigned. */
  budget: MessageBudget | undefined;
  readonly #limits: FrameLimits;
  readonly #handlers: FrameHandlers;
  /** The start of a line whose end has not arrived yet: the first `#partialBytes` bytes. */
  #partial: Buffer | undefined;
  #partialBytes = 0;
  #held: BudgetedMessage | undefined;
  #heldBytes = 0;
  #stopped = false;

  constructor(limits: FrameLimits, handlers: FrameHandlers) {
    this.#limits = limits;
    this.#handlers = handlers;
  }

  /** Stops reading: any further input comes from a process that was given up. */
  stop(): void {
    this.#stopped = true;
    this.#discardPartial();
  }

  push(chunk: Buffer): void {
    if (this.#stopped) return;
    const last = chunk.lastIndexOf(NEWLINE);
    if (last < 0) return this.#append(chunk);

    let start = 0;
    if (this.#partialBytes > 0) {
      start = chunk.indexOf(NEWLINE) + 1;
      this.#append(chunk.subarray(0, start - 1));
      if (this.#stopped) return;
      const line = this.#partial!.subarray(0, this.#partialBytes);
      this.#discardPartial();
      if (!this.#isTakenUnparsed(line)) this.#read(decodeUtf8(line));
    }
    if (start <= last) this.#readLines(chunk.toString("utf8", start, last));
    if (last + 1 < chunk.length) this.#append(chunk.subarray(last + 1));
  }

  #isTakenUnparsed(line: Buffer): boolean {
    if (line.length <= readingBounds.inlineBodyBytes) return false;
    const result = RESULT.exec(line.toString("latin1", 0, BEGINNING_BYTES));
    return result !== null && this.#handlers.onLongResult?.(Number(result[1]), line) === true;
  }

  #readLines(text: string): void {
    for (let start = 0; start <= text.length && !this.#stopped;) {
      let end = text.indexOf("\n", start);
      if (end < 0) end = text.length;
      const line = start === 0 && end === text.length ? text : text.slice(start, end);
      const isLong = line.length > readingBounds.inlineBodyBytes;
      if (!isLong || !this.#isTakenUnparsed(Buffer.from(line))) this.#read(line);
      start = end + 1;
    }
  }

  #read(line: string): void {
    const { guestFrameBytes } = this.#limits;
    const { inlineBodyBytes, messageValues } = readingBounds;
    if (line.length > guestFrameBytes) return this.#fault(`wrote a frame of more than ${guestFrameBytes} bytes`);
    if (line.length > inlineBodyBytes && !RESULT.test(line) && hasMoreValues(line, messageValues)) {
      return this.#fault(`wrote a message of more than ${messageValues} values`);
    }
    if (line.length > eventValuesMax && !MANY.test(line) && hasMoreValues(line, eventValuesMax + FRAME_VALUES)) {
      return this.#fault(`wrote a message of more than ${eventValuesMax} values that is not a result`);
    }
    const frame = tryParseJson(line);
    if (frame === undefined) return this.#fault("wrote something that is not JSON to its pipe");
    if (!Array.isArray(frame)) return this.#fault("wrote something that is not a frame to its pipe");
    if (nestsTooDeep(frame, line.length)) {
      return this.#fault(`wrote a value nested more than ${NESTING_MAX} levels deep`);
    }
    this.#handlers.onFrame(frame, line.length);
  }

  #append(bytes: Buffer): void {
    if (this.#stopped) return;
    const length = this.#partialBytes + bytes.length;
    const { guestFrameBytes } = this.#limits;
    if (length > guestFrameBytes) return this.#fault(`wrote a frame of more than ${guestFrameBytes} bytes`);
    if (!this.#partial || this.#partial.length < length) {
      const grown = Buffer.allocUnsafe(Math.max(length, (this.#partial?.length ?? 2048) * 2));
      this.#partial?.copy(grown, 0, 0, this.#partialBytes);
      this.#partial = grown;
    }
    bytes.copy(this.#partial, this.#partialBytes);
    this.#partialBytes = length;
    if (length > UNCOUNTED_BYTES) this.#count(length);
  }

  #count(bytes: number): void {
    const more = bytes - this.#heldBytes;
    this.#heldBytes = bytes;
    this.#held ??= this.budget?.begin((why) => this.#fault(why));
    this.#held?.add(more);
  }

  #discardPartial(): void {
    this.#partial = undefined;
    this.#partialBytes = 0;
    this.#held?.end();
    this.#held = undefined;
    this.#heldBytes = 0;
  }

  #fault(message: string): void {
    this.stop();
    this.#handlers.onFault(message);
  }
}

const STRAY_FRAMES_MAX = 10_000;
const DECAY_PER_MS = 0.1;

/**
 * Counts a process's frames about calls that are not in flight. A guest may be late occasionally, but not constantly:
 * the count decays at a steady rate.
 */
export class StrayFrames {
  #strays = 0;
  #countedAt = 0;

  /** Counts one more frame; returns the fault once there are too many. */
  count(now: number): string | undefined {
    this.#strays = Math.max(0, this.#strays - (now - this.#countedAt) * DECAY_PER_MS) + 1;
    this.#countedAt = now;
    return this.#strays > STRAY_FRAMES_MAX
      ? `wrote more than ${STRAY_FRAMES_MAX} frames for calls that are not in flight`
      : undefined;
  }
}
