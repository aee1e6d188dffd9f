import type { Duplex } from "node:stream";
import type { MessageRoom } from "../lib/message-room.ts";
import { Outbox } from "../lib/outbox.ts";
import type { Spawn } from "../processes/spawn/spawn.ts";
import { FrameReader, type FrameHandlers, type FrameLimits } from "./frames.ts";
import { failure, ended } from "./failures.ts";
import { ProcessGroup, type Command, type Exit } from "../processes/process-group.ts";
import { toGuest } from "./guest/wire.mts";
import { ReadingTime } from "../lib/reading-time.ts";
import { atEndOfTurn } from "./end-of-turn.ts";
import type { ExecutorLimits } from "./limits.ts";
import type { GuestFailure } from "./executor.ts";

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

export type GuestProcessLimits = FrameLimits & Pick<ExecutorLimits, "guestBacklogBytes" | "guestStalledMs">;

/** The most that one process may deliver in one event-loop turn before the others get theirs. */
const TURN_BYTES = 256 * 1024;
/** Above this, no further long answer is read for the process: only one at a time waits in the pipe. */
const UNTAKEN_BYTES = 256 * 1024;
/** The end of stderr that is kept to tell why a process died; after the second figure stderr is no longer read. */
const STDERR_KEPT_UNITS = 4_096;
const STDERR_READ_UNITS = 256 * 1024;

export class GuestProcess {
  /** How it ended, once it has. */
  exit: Exit | undefined;
  /** Resolves when nothing of it is alive. */
  readonly gone: Promise<void>;
  readonly #group: ProcessGroup;
  readonly #reader: FrameReader;
  readonly #limits: GuestProcessLimits;
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
  #verdict: GuestFailure | undefined;

  constructor(start: Spawn, command: Command, limits: GuestProcessLimits, listener: GuestListener) {
    this.#limits = limits;
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
        this.#listener.onEnded(this.#verdict ?? ended(exit, this.#stderr));
        gone();
      },
    });
  }

  /** Hands the process over from the pool of spares to a program, with the share of its tenant. */
  assign(listener: GuestListener, { readingTime, frames }: GuestShare): void {
    this.#listener = listener;
    this.#reader.room = frames;
    this.#readingTime = readingTime;
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
    if (this.#outbox.isEmpty) atEndOfTurn(this.#outbox.flush);
    const number = bytes
      ? this.#outbox.add(`[${toGuest.withBytes},${bytes.length},${frame}]\n`, bytes)
      : this.#outbox.add(`${frame}\n`);
    if (this.backlogBytes > this.#limits.guestBacklogBytes) this.#awaitTaken();
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
    const { guestBacklogBytes, guestStalledMs } = this.#limits;
    const message = `its process did not take the more than ${guestBacklogBytes} bytes that waited for it (guestBacklogBytes) within ${guestStalledMs} ms (guestStalledMs)`;
    this.#stalled = setTimeout(() => this.kill(failure("protocol", message)), guestStalledMs).unref();
  }

  #onTaken(): void {
    const waiting = this.backlogBytes;
    if (waiting <= UNTAKEN_BYTES) for (const resolve of this.#untaken.splice(0)) resolve();
    if (!this.#stalled || waiting > this.#limits.guestBacklogBytes) return;
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
