import type { CancelSignal } from "../lib/cancellation.ts";
import type { JsonObject } from "../lib/json.ts";
import type { Ask, UpstreamQuestion } from "./request.ts";
import { UnderWay } from "./under-way.ts";

/** A call under way on one connection. */
export interface AskedCall {
  /** Undefined for a caller that cannot be asked. */
  readonly ask: Ask | undefined;
}

/**
 * Finds the call that a legacy server's question belongs to, which the question itself does not say. A question never
 * reaches a caller other than its own: while several calls are under way it waits until one is left, new calls wait
 * meanwhile, and after `waitMs` it is refused.
 */
export class Attribution {
  readonly #waitMs: number;
  readonly #calls = new UnderWay<AskedCall>();
  #settled: (() => void)[] = [];
  #questions = 0;
  #open: Promise<void> = Promise.resolve();
  #openAgain = (): void => {};

  constructor(waitMs: number) {
    this.#waitMs = waitMs;
  }

  /** The promise that a call must await before it begins, usually undefined. Check again afterwards. */
  get closed(): Promise<void> | undefined {
    return this.#questions > 0 ? this.#open : undefined;
  }

  enter(call: AskedCall): void {
    this.#calls.add(call);
  }

  leave(call: AskedCall): void {
    this.#calls.remove(call);
    if (this.#settled.length > 0) for (const settled of this.#settled.splice(0)) settled();
  }

  /** Passes the question to its call. Rejects if that call is unknown, or nobody can answer. */
  async ask(question: UpstreamQuestion, signal?: CancelSignal): Promise<JsonObject> {
    const call = await this.#onlyCall();
    if (!call) {
      const why = "several calls are under way, and it does not say which one it belongs to";
      throw Object.assign(unanswerable(why), { isOfNoCall: true });
    }
    if (!call.ask) throw unanswerable("the caller cannot be asked");
    return call.ask(question, signal);
  }

  async #onlyCall(): Promise<AskedCall | undefined> {
    if (this.#calls.size > 1) {
      this.#close();
      const deadline = performance.now() + this.#waitMs;
      while (this.#calls.size > 1 && performance.now() < deadline) await this.#oneEnds(deadline - performance.now());
      this.#reopen();
    }
    return this.#calls.only;
  }

  #oneEnds(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#settled.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  #close(): void {
    if (this.#questions++ === 0) this.#open = new Promise((resolve) => (this.#openAgain = resolve));
  }

  #reopen(): void {
    if (--this.#questions === 0) this.#openAgain();
  }
}

/** JSON-RPC code for an unanswerable question: the client has no such method. */
function unanswerable(why: string): Error {
  return Object.assign(new Error(`The question cannot be answered: ${why}`), { code: -32601 });
}
