import type { Socket } from "node:net";
import { clock } from "../lib/clock.ts";
import { yieldToCalls } from "../lib/event-loop.ts";
import type { ReadingTime } from "../lib/reading-time.ts";

/** Bytes handed over at a time: in pieces of one byte they take the reader about a millisecond. */
const SLICE_BYTES = 4 * 1024;
/** Reading time per turn of the event loop, for all sockets together. */
const TURN_MS = 3;

/**
 * Interrupts readers that read a socket until it is empty, so that other work is not blocked: a host can send bytes
 * that take long to read. With `time`, the socket pauses once its time is used up.
 */
export function readInSlices(socket: Socket, time: ReadingTime | undefined): void {
  const read = socket.read.bind(socket) as (bytes?: number) => Buffer | null;
  /** When the slice that is being read was handed over. */
  let sliceAt: number | undefined;
  let isWaiting = false;

  const resume = (): void => {
    isWaiting = false;
    if (!socket.destroyed) socket.emit("readable");
  };

  socket.read = (bytes?: number): Buffer | null => {
    // The stream itself calls it this way to fetch more.
    if (bytes !== undefined) return read(bytes);
    if (isWaiting) return null;
    const now = performance.now();
    const tookMs = sliceAt === undefined ? 0 : now - sliceAt;
    sliceAt = undefined;
    turn.leftMs -= tookMs;
    const restMs = time?.spend(tookMs, now) ?? 0;
    if (socket.readableLength === 0) return read();
    if (restMs > 0) {
      isWaiting = true;
      clock.after(restMs, resume).unref();
      return null;
    }
    if (turn.leftMs <= 0) {
      isWaiting = true;
      turn.wait(resume);
      return null;
    }
    sliceAt = now;
    // The slice is read before anything else happens.
    queueMicrotask(() => (sliceAt = undefined));
    return read(Math.min(SLICE_BYTES, socket.readableLength));
  };
}

/** The time left in this turn, and the sockets that wait for a later one, in round-robin order. */
class Turn {
  leftMs = TURN_MS;
  readonly #waiting: (() => void)[] = [];
  #isEnding = false;

  wait(resume: () => void): void {
    this.#waiting.push(resume);
    if (!this.#isEnding) void this.#end();
  }

  async #end(): Promise<void> {
    this.#isEnding = true;
    while (this.#waiting.length > 0) {
      await yieldToCalls();
      this.leftMs = TURN_MS;
      while (this.leftMs > 0) {
        const resume = this.#waiting.shift();
        if (!resume) break;
        resume();
      }
    }
    this.#isEnding = false;
  }
}

const turn = new Turn();
