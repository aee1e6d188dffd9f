import { setTimeout as delay } from "node:timers/promises";
import type { FetchLike } from "@modelcontextprotocol/client";

const SECOND_MS = 1000;

/** Limits how often the event streams of one connection are reopened after the server ends them. */
export class Resumption {
  readonly #perSecond: number;
  readonly #waitingMax: number;
  readonly #waiting = new Set<NodeJS.Timeout>();
  #opened = 0;
  #secondBegan = -SECOND_MS;

  /** If more than `waitingMax` streams wait to be resumed, the oldest are dropped. */
  constructor(perSecond: number, waitingMax: number) {
    this.#perSecond = perSecond;
    this.#waitingMax = waitingMax;
  }

  /** Resumes a stream after a while. The client calls it, and does not say when a stream's request is over. */
  readonly schedule = (takeUp: () => void, delayMs: number): (() => void) => {
    const timer = setTimeout(() => {
      this.#waiting.delete(timer);
      takeUp();
    }, delayMs).unref();
    this.#waiting.add(timer);
    const [oldest] = this.#waiting;
    if (this.#waiting.size > this.#waitingMax) this.#leave(oldest!);
    return () => this.#leave(timer);
  };

  /** `fetch` that opens a limited number of streams in a second: further ones wait. */
  paced(fetchIt: FetchLike): FetchLike {
    return async (url, init) => {
      if ((init?.method ?? "GET") === "GET") await this.#turn(init?.signal);
      return fetchIt(url, init);
    };
  }

  async #turn(signal: AbortSignal | null | undefined): Promise<void> {
    for (;;) {
      signal?.throwIfAborted();
      const now = performance.now();
      if (now - this.#secondBegan >= SECOND_MS) [this.#secondBegan, this.#opened] = [now, 0];
      if (this.#opened < this.#perSecond) break;
      // oxlint-disable-next-line no-await-in-loop -- each second anew
      await delay(this.#secondBegan + SECOND_MS - now);
    }
    this.#opened += 1;
  }

  #leave(timer: NodeJS.Timeout): void {
    clearTimeout(timer);
    this.#waiting.delete(timer);
  }
}
