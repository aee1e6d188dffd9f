import { Attribution } from "./attribution.ts";
import type { Ask } from "./request.ts";

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

  /** `name` is the called tool; `ask` is undefined for a caller that cannot be asked. */
  async run<T>(name: string, ask: Ask | undefined, work: () => Promise<T>): Promise<T> {
    const mayAsk = ask !== undefined && !this.#quiet.has(name);
    const endTurn = mayAsk ? await this.#takeTurn() : undefined;
    while (this.#attribution.closed) await this.#attribution.closed;
    let asked = false;
    const own: Ask | undefined = ask && ((question, signal) => ((asked = true), ask(question, signal)));
    const entered = { ask: own };
    this.#attribution.enter(entered);
    try {
      const result = await work();
      if (mayAsk && !asked && name !== "") this.#quiet.add(name);
      return result;
    } finally {
      if (asked) this.#quiet.delete(name);
      this.#attribution.leave(entered);
      endTurn?.();
    }
  }

  async #takeTurn(): Promise<() => void> {
    const before = this.#turn;
    let end = (): void => {};
    this.#turn = new Promise((resolve) => (end = resolve));
    await before;
    return end;
  }
}
