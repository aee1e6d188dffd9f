import type { Duplex } from "node:stream";
import { clock, type Timer } from "../lib/clock.ts";
import { hasMoreValues, NESTING_MAX, nestsTooDeep, tryParseJson } from "../lib/json.ts";
import { textOf } from "../lib/long-text.ts";
import type { HeldMessage, MessageRoom } from "../lib/message-room.ts";
import { Outbox } from "../lib/outbox.ts";
import { readingBounds } from "../lib/reading-bounds.ts";
import { ReadingTime } from "../lib/reading-time.ts";
import { atEndOfTurn } from "../lib/turn.ts";
import { fixed } from "../limits/fixed.ts";
import type { Limits } from "../limits/limits.ts";
import type { Outlet } from "../network/socket-relay.ts";
import { ProcessGroup, type Command, type Exit } from "../processes/process-group.ts";
import { treeOf } from "../processes/process-tree.ts";
import type { Spawn } from "../processes/spawn/spawn.ts";
import type { GuestFailure } from "./executor.ts";
import { ended, failure } from "./failures.ts";
import { eventValuesMax, toGuest, toHost } from "./guest/wire.mts";

/**
 * One child process with the guest runner in it, and the pipe to it. It owns starting, writing in batches, reading
 * under limits, and the end. It knows no program and no call: what the frames mean is its listener's business.
 */
export interface GuestListener extends Pick<FrameHandlers, "onFrame" | "onLongResult"> {
  /** Called once. Nothing of the process is alive any more. */
  onEnded(failure: GuestFailure): void;
}

/** The share of the serving process that all guests of one tenant use together. */
export interface GuestShare {
  readonly readingTime: ReadingTime;
  /** For frames that are not whole yet. */
  readonly frames: MessageRoom;
}

export const backlogBounds = fixed({
  /** Messages that a guest has not read yet: above this, nothing is read from it until it has read all of them. */
  guestBacklogBytes: 16 * 1024 * 1024,
  /** How long that may take before its process is ended. */
  guestStalledMs: 60_000,
});

/** The most that one process may deliver in one event-loop turn before the others get theirs. */
const TURN_BYTES = 256 * 1024;
/** The same for what takes longer to read than usual, such as log lines that secrets are removed from. */
const TURN_MS = 2;
/** Above this, no further long answer is read for the process: only one at a time waits in the pipe. */
const UNTAKEN_BYTES = 256 * 1024;
/** The end of stderr that is kept to tell why a process died; after the second figure stderr is no longer read. */
const STDERR_KEPT_UNITS = 4_096;
const STDERR_READ_UNITS = 256 * 1024;
export const traceBounds = fixed({
  /** How long a busy process has to print its stack. */
  traceMs: 200,
});

export class GuestProcess {
  /** How it ended, once it has. */
  exit: Exit | undefined;
  /** Resolves when nothing of it is alive. */
  readonly gone: Promise<void>;
  readonly way: { readonly outlet: Outlet; readonly folder: string } | undefined;
  readonly #group: ProcessGroup;
  readonly #reader: FrameReader;
  #listener: GuestListener;
  /** Undefined until the process has been started. */
  #pipe: Duplex | undefined;
  readonly #outbox = new Outbox({ onTaken: () => this.#onTaken() });
  #untaken: (() => void)[] = [];
  #stderr = "";
  #readingTime = new ReadingTime();
  #turnBytes = 0;
  #holds = 0;
  /** Runs while too much waits for the process. */
  #stalled: NodeJS.Timeout | undefined;
  #tracing: Timer | undefined;
  #verdict: GuestFailure | undefined;

  /** `way` is its way out, and the folder of it, as it sees that. */
  constructor(
    start: Spawn,
    command: Command,
    limits: FrameLimits,
    listener: GuestListener,
    way?: { readonly outlet: Outlet; readonly folder: string },
  ) {
    this.way = way;
    this.#listener = listener;
    this.#reader = new FrameReader(limits, {
      onFrame: (frame, units) => this.#listener.onFrame(frame, units),
      onLongResult: (call, frame) => this.#listener.onLongResult?.(call, frame) ?? false,
      onFault: (message) => this.kill(failure("protocol", `its process ${message}`)),
    });
    let gone!: () => void;
    this.gone = new Promise((resolve) => (gone = resolve));
    this.#group = new ProcessGroup(start, command, ["ignore", "ignore", "pipe", "pipe"], {
      onStarted: ([, , stderr, pipe]) => this.#begin(stderr!, pipe!),
      onEnded: (exit) => {
        this.exit = exit;
        this.#reader.stop();
        clearTimeout(this.#stalled);
        this.#tracing?.clear();
        this.#listener.onEnded(this.#verdict ?? ended(exit, this.#stderr));
        gone();
      },
    });
  }

  /** Hands the process over from the pool of spares to a program, with the share of its tenant, or one of its own. */
  assign(listener: GuestListener, share?: GuestShare): this {
    this.#listener = listener;
    if (!share) return this;
    this.#reader.room = share.frames;
    this.#readingTime = share.readingTime;
    return this;
  }

  /** Undefined until it has been started. */
  get pid(): number | undefined {
    return this.#group.pid;
  }

  /** Bytes that the process has not taken yet. */
  get backlogBytes(): number {
    return this.#outbox.bytes;
  }

  /** The end of what it wrote to stderr. */
  get stderr(): string {
    return this.#stderr;
  }

  /**
   * Writes one frame, without its newline, together with the others of this turn, and any bytes that belong to it.
   * Returns the number of the frame, for `mayHaveRead`.
   */
  send(frame: string, bytes?: Uint8Array): number {
    const number = bytes
      ? this.#outbox.add(`[${toGuest.withBytes},${bytes.length},${frame}]\n`, bytes)
      : this.#outbox.add(`${frame}\n`);
    if (this.backlogBytes > backlogBounds.guestBacklogBytes) this.#awaitTaken();
    return number;
  }

  /** True once the whole frame has been handed to the pipe: the process cannot know of it earlier. */
  mayHaveRead(frame: number): boolean {
    return this.#outbox.mayHaveRead(frame);
  }

  /** Resolves when the process has taken most of what waits for it; undefined when it has. */
  taken(): Promise<void> | undefined {
    if (this.backlogBytes <= UNTAKEN_BYTES) return undefined;
    return new Promise((resolve) => this.#untaken.push(resolve));
  }

  /** Takes time from the tenant's share; reading pauses until the share has time again. Returns for how long. */
  spend(ms: number, now: number): number {
    const restMs = this.#readingTime.spend(ms, now);
    if (restMs > 0) this.#rest(restMs);
    return restMs;
  }

  /** Stops reading until as many `release`s have come: then the guest's pipe fills and the guest waits. */
  hold(): void {
    if (this.#holds++ === 0) this.#pipe?.pause();
  }

  release(): void {
    if (--this.#holds === 0) this.#pipe?.resume();
  }

  /** Ends the process group. The listener is told `verdict`; the first one counts. */
  kill(verdict: GuestFailure): void {
    this.#verdict ??= verdict;
    this.#reader.stop();
    this.#group.kill();
    this.#pipe?.destroy();
  }

  /**
   * Ends a process whose event loop does not react. It has time to print the stack of what it runs, which is in `stderr`
   * once it has ended.
   */
  interrupt(verdict: GuestFailure): void {
    if (this.#verdict || this.pid === undefined) return this.kill(verdict);
    this.#verdict = verdict;
    this.#reader.stop();
    this.#stderr = "";
    this.#tracing = clock.after(traceBounds.traceMs, () => this.kill(verdict));
    try {
      // The innermost is Node; around it are the processes of the sandbox.
      process.kill(treeOf(this.pid).at(-1)!, "SIGINT");
    } catch {
      // It has ended.
    }
  }

  #begin(stderr: Duplex, pipe: Duplex): void {
    this.#pipe = pipe;
    this.#collectStderr(stderr);
    pipe.on("data", this.#take);
    if (this.#holds > 0) pipe.pause();
    this.#outbox.open(pipe);
  }

  /** A process that does not take its answers may ask nothing more. */
  #awaitTaken(): void {
    // Nothing is read from a process before it has started, and starting may take long.
    if (this.#stalled || !this.#pipe) return;
    this.hold();
    const { guestBacklogBytes, guestStalledMs } = backlogBounds;
    const message = `its process did not take the more than ${guestBacklogBytes} bytes that waited for it within ${guestStalledMs} ms`;
    this.#stalled = setTimeout(() => this.kill(failure("protocol", message)), guestStalledMs).unref();
  }

  #onTaken(): void {
    const waiting = this.backlogBytes;
    if (waiting <= UNTAKEN_BYTES) for (const resolve of this.#untaken.splice(0)) resolve();
    if (!this.#stalled || waiting > backlogBounds.guestBacklogBytes) return;
    clearTimeout(this.#stalled);
    this.#stalled = undefined;
    this.release();
  }

  readonly #take = (chunk: Buffer): void => {
    if (this.#turnBytes === 0) atEndOfTurn(this.#endTurn);
    this.#turnBytes += chunk.length;
    const start = performance.now();
    this.#reader.push(chunk);
    const now = performance.now();
    if (now - start > TURN_MS) this.#turnBytes += TURN_BYTES;
    if (this.spend(now - start, now) === 0 && this.#turnBytes > TURN_BYTES) this.#pipe?.pause();
  };

  #rest(ms: number): void {
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
      this.#stderr = (this.#stderr + text).slice(-STDERR_KEPT_UNITS);
      if (read > STDERR_READ_UNITS) stderr.destroy();
    });
  }
}

interface FrameHandlers {
  /** `units` is the frame's length in UTF-16 units. */
  onFrame(frame: readonly unknown[], units: number): void;
  /**
   * Takes a call's result whose frame is longer than `inlineBodyBytes`, as bytes of which only the beginning was
   * examined. Returns false to have it parsed here.
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
/** The part of a line that `RESULT` and `MANY` are matched against. */
const BEGINNING_BYTES = 32;

/** The values in a frame besides its payload. */
const FRAME_VALUES = 16;
/** Matches the frames that may have very many values. */
const MANY = new RegExp(`^\\[(?:${[toHost.text, toHost.json, toHost.bytes, toHost.asks].join("|")}),`);

/**
 * Cuts what a guest writes into frames: one JSON array a line. It owns the size cap and the work done in one event-loop
 * turn, and trusts nothing: the first invalid frame ends the reading with one fault. It knows neither processes nor
 * calls.
 */
export class FrameReader {
  /** The room of the guest's tenant; nothing is counted until the guest is assigned. */
  room: MessageRoom | undefined;
  readonly #limits: FrameLimits;
  readonly #handlers: FrameHandlers;
  /** The start of a line whose end has not come yet: the first `#kept` bytes. */
  #partial: Buffer | undefined;
  #kept = 0;
  #held: HeldMessage | undefined;
  #heldBytes = 0;
  #stopped = false;

  constructor(limits: FrameLimits, handlers: FrameHandlers) {
    this.#limits = limits;
    this.#handlers = handlers;
  }

  /** Stops reading: the rest belongs to a process that was given up. */
  stop(): void {
    this.#stopped = true;
    this.#forget();
  }

  push(chunk: Buffer): void {
    if (this.#stopped) return;
    const last = chunk.lastIndexOf(NEWLINE);
    if (last < 0) return this.#keep(chunk);

    let start = 0;
    if (this.#kept > 0) {
      start = chunk.indexOf(NEWLINE) + 1;
      this.#keep(chunk.subarray(0, start - 1));
      if (this.#stopped) return;
      const line = this.#partial!.subarray(0, this.#kept);
      this.#forget();
      if (!this.#isReadElsewhere(line)) this.#read(textOf(line));
    }
    if (start <= last) this.#readLines(chunk.toString("utf8", start, last));
    if (last + 1 < chunk.length) this.#keep(chunk.subarray(last + 1));
  }

  #isReadElsewhere(line: Buffer): boolean {
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
      if (!isLong || !this.#isReadElsewhere(Buffer.from(line))) this.#read(line);
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

  #keep(bytes: Buffer): void {
    if (this.#stopped) return;
    const length = this.#kept + bytes.length;
    const { guestFrameBytes } = this.#limits;
    if (length > guestFrameBytes) return this.#fault(`wrote a frame of more than ${guestFrameBytes} bytes`);
    if (!this.#partial || this.#partial.length < length) {
      const grown = Buffer.allocUnsafe(Math.max(length, (this.#partial?.length ?? 2048) * 2));
      this.#partial?.copy(grown, 0, 0, this.#kept);
      this.#partial = grown;
    }
    bytes.copy(this.#partial, this.#kept);
    this.#kept = length;
    if (length > UNCOUNTED_BYTES) this.#count(length);
  }

  #count(bytes: number): void {
    const more = bytes - this.#heldBytes;
    this.#heldBytes = bytes;
    this.#held ??= this.room?.begin((why) => this.#fault(why));
    this.#held?.add(more);
  }

  #forget(): void {
    this.#partial = undefined;
    this.#kept = 0;
    this.#held?.end();
    this.#held = undefined;
    this.#heldBytes = 0;
  }

  #fault(message: string): void {
    this.stop();
    this.#handlers.onFault(message);
  }
}

const STRAYS_MAX = 10_000;
const FORGOTTEN_PER_MS = 0.1;

/**
 * Counts a process's frames about calls that are not in flight: a guest may be late now and then, not all the time. The
 * count decays at a steady rate.
 */
export class StrayFrames {
  #strays = 0;
  #countedAt = 0;

  /** Counts one more; says what the process did wrong once there are too many. */
  count(now: number): string | undefined {
    this.#strays = Math.max(0, this.#strays - (now - this.#countedAt) * FORGOTTEN_PER_MS) + 1;
    this.#countedAt = now;
    return this.#strays > STRAYS_MAX ? `wrote more than ${STRAYS_MAX} frames about no call in flight` : undefined;
  }
}
