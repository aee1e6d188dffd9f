import type { CancelSignal } from "../../lib/cancellation.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { Ask, UpstreamQuestion } from "../messages/request.ts";

/**
 * Calls of a legacy server that many callers share. Calls that may ask run one at a time, so that a question has one
 * possible owner; calls of a tool that once finished without a question run concurrently.
 */
export class AttributedCalls {
  readonly ask: Ask;
  readonly #attribution: Attribution;
  /** Tools whose calls do not ask, as far as known. */
  readonly #quiet = new Set<string>();
  #lastSlot: Promise<void> = Promise.resolve();

  /** A question that may belong to several calls is rejected after `waitMs`. */
  constructor(waitMs: number) {
    this.#attribution = new Attribution(waitMs);
    this.ask = (question, signal) => this.#attribution.ask(question, signal);
  }

  /**
   * Waits for the slot of a call, which the returned function releases. `name` is the called tool; `ask` is undefined
   * for a caller that cannot be asked.
   */
  async enter(name: string, ask: Ask | undefined): Promise<(hasSucceeded: boolean) => void> {
    const mayAsk = ask !== undefined && !this.#quiet.has(name);
    const release = mayAsk ? await this.#acquireSlot() : undefined;
    while (this.#attribution.closed) await this.#attribution.closed;
    let asked = false;
    const trackedAsk: Ask | undefined =
      ask &&
      ((question, signal) => {
        asked = true;
        const timer = release && setTimeout(release, UNANSWERED_SLOT_MS);
        return ask(question, signal).finally(() => clearTimeout(timer));
      });
    const entered = { ask: trackedAsk };
    this.#attribution.enter(entered);
    return (hasSucceeded) => {
      if (hasSucceeded && mayAsk && !asked && name !== "") this.#quiet.add(name);
      if (asked) this.#quiet.delete(name);
      this.#attribution.leave(entered);
      release?.();
    };
  }

  async #acquireSlot(): Promise<() => void> {
    const previous = this.#lastSlot;
    let end = (): void => {};
    this.#lastSlot = new Promise((resolve) => (end = resolve));
    await previous;
    return end;
  }
}

/**
 * How long a call with an unanswered question occupies its slot: a client that never answers must not block the others.
 */
const UNANSWERED_SLOT_MS = 10_000;

interface AskableCall {
  readonly ask: Ask | undefined;
}

/**
 * Finds the call that a legacy server's question belongs to, which the question does not name. A question never reaches
 * another caller: while several calls are in progress it waits until one is left, and new calls wait; after `waitMs` it
 * is rejected.
 */
export class Attribution {
  readonly #waitMs: number;
  readonly #calls = new CallsInProgress<AskableCall>();
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

  enter(call: AskableCall): void {
    this.#calls.add(call);
  }

  leave(call: AskableCall): void {
    this.#calls.remove(call);
    if (this.#settled.length > 0) for (const settled of this.#settled.splice(0)) settled();
  }

  /** Passes the question to its call. Rejects if that call is unknown, or its caller cannot be asked. */
  async ask(question: UpstreamQuestion, signal?: CancelSignal): Promise<JsonObject> {
    const call = await this.#onlyCall();
    if (!call) {
      const why = "several calls are in progress, and it does not say which one it belongs to";
      throw Object.assign(unanswerable(why), { isOfNoCall: true });
    }
    if (!call.ask) throw unanswerable("the caller cannot be asked");
    return call.ask(question, signal);
  }

  async #onlyCall(): Promise<AskableCall | undefined> {
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

/** JSON-RPC code of a question that cannot be answered: the client has no such method. */
function unanswerable(why: string): Error {
  return Object.assign(new Error(`The question cannot be answered: ${why}`), { code: -32601 });
}

/** Calls in progress. A `Set` would do the same, but one that changes with each call leaves long-lived garbage. */
export class CallsInProgress<Call> {
  readonly #calls: Call[] = [];

  get size(): number {
    return this.#calls.length;
  }

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
