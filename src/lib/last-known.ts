import { BoundedMap } from "./bounded-map.ts";
import { BerthError } from "./errors.ts";
import { settlesWithin, LATE_MS } from "./within.ts";

/**
 * Caches the last answers of a store, by key. A cached answer is used for `databaseOutageMs` while the store does not
 * answer, so that a call that only reads does not wait for a disk.
 */
export class LastKnown<Value> {
  readonly #cached: BoundedMap<string, { readonly value: Value; readonly at: number }>;
  readonly #late = new Set<string>();
  readonly #databaseOutageMs: number;
  #invalidations = 0;

  constructor(max: number, databaseOutageMs = Infinity) {
    this.#cached = new BoundedMap(max);
    this.#databaseOutageMs = databaseOutageMs;
  }

  /** Reads from the store, unless an answer is late already. Without a cached answer, rejects as `ask` does. */
  async read(key: string, ask: () => Promise<Value>): Promise<Value> {
    const isCached = this.newerThan(this.#databaseOutageMs, key) !== undefined;
    const answer = isCached && this.#late.has(key) ? undefined : this.#ask(key, ask);
    try {
      if (answer && (!isCached || (await settlesWithin(LATE_MS, answer)))) return await answer;
      this.#late.add(key);
    } catch (error) {
      if (!(error instanceof BerthError) || error.code !== "store_failed") throw error;
    }
    // It may have been invalidated meanwhile.
    const cached = this.newerThan(this.#databaseOutageMs, key);
    return cached ? cached.value : answer!;
  }

  newerThan(ms: number, key: string): { readonly value: Value } | undefined {
    const cached = this.#cached.get(key);
    return cached && performance.now() - cached.at < ms ? cached : undefined;
  }

  /** Also prevents pending reads from being cached. */
  forget(isAffected: (value: Value, key: string) => boolean): void {
    this.#invalidations += 1;
    for (const [key, { value }] of this.#cached) if (isAffected(value, key)) this.#cached.delete(key);
  }

  async #ask(key: string, ask: () => Promise<Value>): Promise<Value> {
    const invalidations = this.#invalidations;
    try {
      const value = await ask();
      if (invalidations === this.#invalidations) this.#cached.set(key, { value, at: performance.now() });
      return value;
    } finally {
      this.#late.delete(key);
    }
  }
}
