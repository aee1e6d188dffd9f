import { BoundedMap } from "./bounded-map.ts";
import { BerthError } from "./errors.ts";
import { endsWithin, LATE_MS } from "./within.ts";

/**
 * The last answers of a store, by key. An answer counts for `databaseOutageMs` while the store does not answer, so that a call that only
 * reads does not wait for a disk.
 */
export class LastKnown<Value> {
  readonly #known: BoundedMap<string, { readonly value: Value; readonly at: number }>;
  readonly #late = new Set<string>();
  readonly #databaseOutageMs: number;
  #forgotten = 0;

  constructor(max: number, databaseOutageMs = Infinity) {
    this.#known = new BoundedMap(max);
    this.#databaseOutageMs = databaseOutageMs;
  }

  /** Asks the store, unless it is late with an answer already. Rejects as `ask` does where nothing is known. */
  async read(key: string, ask: () => Promise<Value>): Promise<Value> {
    const isKnown = this.newerThan(this.#databaseOutageMs, key) !== undefined;
    const answer = isKnown && this.#late.has(key) ? undefined : this.#ask(key, ask);
    try {
      if (answer && (!isKnown || (await endsWithin(LATE_MS, answer)))) return await answer;
      this.#late.add(key);
    } catch (error) {
      if (!(error instanceof BerthError) || error.code !== "store_failed") throw error;
    }
    // It may have been forgotten meanwhile.
    const known = this.newerThan(this.#databaseOutageMs, key);
    return known ? known.value : answer!;
  }

  newerThan(ms: number, key: string): { readonly value: Value } | undefined {
    const known = this.#known.get(key);
    return known && performance.now() - known.at < ms ? known : undefined;
  }

  /** Answers that were asked for before are not remembered. */
  forget(isMeant: (value: Value, key: string) => boolean): void {
    this.#forgotten += 1;
    for (const [key, { value }] of this.#known) if (isMeant(value, key)) this.#known.delete(key);
  }

  async #ask(key: string, ask: () => Promise<Value>): Promise<Value> {
    const forgotten = this.#forgotten;
    try {
      const value = await ask();
      if (forgotten === this.#forgotten) this.#known.set(key, { value, at: performance.now() });
      return value;
    } finally {
      this.#late.delete(key);
    }
  }
}
