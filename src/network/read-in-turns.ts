import type { Socket } from "node:net";
import type { ReadingTime } from "../lib/reading-time.ts";
import { nextTurn } from "../lib/turns.ts";

/** What whoever reads an answer is given at once: made of pieces of one byte it takes it about a millisecond. */
const SLICE_BYTES = 4 * 1024;
/** In one turn of the event loop, for all sockets together. */
const TURN_MS = 3;

/**
 * Has whoever reads a socket piece by piece until there is nothing more find nothing more in time for others: a host
 * sends what is long to read for its bytes. With `time`, the socket is not read for a while once that is used up.
 */
export function readInTurns(socket: Socket, time: ReadingTime | undefined): void {
  const read = socket.read.bind(socket) as (bytes?: number) => Buffer | null;
  /** When the slice was given that is being read. */
  let givenAt: number | undefined;
  let isWaiting = false;

  const goOn = (): void => {
    isWaiting = false;
    if (!socket.destroyed) socket.emit("readable");
  };

  socket.read = (bytes?: number): Buffer | null => {
    // So does the stream itself have more come.
    if (bytes !== undefined) return read(bytes);
    if (isWaiting) return null;
    const now = performance.now();
    const tookMs = givenAt === undefined ? 0 : now - givenAt;
    givenAt = undefined;
    turn.leftMs -= tookMs;
    const restMs = time?.spend(tookMs, now) ?? 0;
    if (socket.readableLength === 0) return read();
    if (restMs > 0) {
      isWaiting = true;
      setTimeout(goOn, restMs).unref();
      return null;
    }
    if (turn.leftMs <= 0) {
      isWaiting = true;
      turn.wait(goOn);
      return null;
    }
    givenAt = now;
    // It is read before anything else is done.
    queueMicrotask(() => (givenAt = undefined));
    return read(Math.min(SLICE_BYTES, socket.readableLength));
  };
}

/** What is left of this turn, and those that wait for a later one: each that has had it stands behind the others. */
class Turn {
  leftMs = TURN_MS;
  readonly #waiting: (() => void)[] = [];
  #isEnding = false;

  wait(goOn: () => void): void {
    this.#waiting.push(goOn);
    if (!this.#isEnding) void this.#end();
  }

  async #end(): Promise<void> {
    this.#isEnding = true;
    while (this.#waiting.length > 0) {
      await nextTurn();
      this.leftMs = TURN_MS;
      while (this.leftMs > 0) {
        const goOn = this.#waiting.shift();
        if (!goOn) break;
        goOn();
      }
    }
    this.#isEnding = false;
  }
}

const turn = new Turn();
