import type { CancelSignal } from "../../lib/cancellation.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { Ask, UpstreamQuestion } from "../messages/request.ts";

/**
 * Calls of a legacy server that many callers share. Calls that may ask run one after the other, so that a question has
 * one possible owner; calls of a tool that ended once without a question need not wait for each other.
 */
export class AttributedCalls {
  /** Passes a question to its call. */
  readonly ask: Ask;
  readonly #attribution: Attribution;
  /** Tools whose calls do not ask, as far as known. */
  readonly #quiet = new Set<string>();
  #turn: Promise<void> = Promise.resolve();

  /** After `waitMs` a question that may belong to several calls is refused. */
  constructor(waitMs: number) {
    this.#attribution = new Attribution(waitMs);
    this.ask = (question, signal) => this.#attribution.ask(question, signal);
  }

  /**
   * Waits for the turn of a call, which ends when the returned function is called. `name` is the called tool; `ask` is
   * undefined for a caller that cannot be asked.
   */
  async enter(name: string, ask: Ask | undefined): Promise<(hasSucceeded: boolean) => void> {
    const mayAsk = ask !== undefined && !this.#quiet.has(name);
    const endTurn = mayAsk ? await this.#takeTurn() : undefined;
    while (this.#attribution.closed) await this.#attribution.closed;
    let asked = false;
    const own: Ask | undefined =
      ask &&
      ((question, signal) => {
        asked = true;
        const timer = endTurn && setTimeout(endTurn, UNANSWERED_TURN_MS);
        return ask(question, signal).finally(() => clearTimeout(timer));
      });
    const entered = { ask: own };
    this.#attribution.enter(entered);
    return (hasSucceeded) => {
      if (hasSucceeded && mayAsk && !asked && name !== "") this.#quiet.add(name);
      if (asked) this.#quiet.delete(name);
      this.#attribution.leave(entered);
      endTurn?.();
    };
  }

  async #takeTurn(): Promise<() => void> {
    const before = this.#turn;
    let end = (): void => {};
    this.#turn = new Promise((resolve) => (end = resolve));
    await before;
    return end;
  }
}

/** The longest turn of a call whose question has no answer: a client that never answers must not lock out the others. */
const UNANSWERED_TURN_MS = 10_000;

/** A call under way on one connection. */
interface AskedCall {
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

/** Calls under way. A `Set` would do the same, but one that changes with each call leaves long-lived garbage. */
export class UnderWay<Call> {
  readonly #calls: Call[] = [];

  get size(): number {
    return this.#calls.length;
  }

  /** The only call under way; undefined for none, and for several. */
  get only(): Call | undefined {
    return this.#calls.length === 1 ? this.#calls[0] : undefined;
  }

  add(call: Call): void {
    this.#calls.push(call);
  }

  remove(call: Call): void {
    const at = this.#calls.indexOf(call);
    if (at === -1) return;
    const last = this.#calls.pop()!;
    if (at < this.#calls.length) this.#calls[at] = last;
  }
}
