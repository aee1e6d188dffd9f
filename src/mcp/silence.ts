import { BoundedMap } from "../lib/bounded-map.ts";
/**
 * Decides when another process counts as gone that has no sign of life in the store: once the observer has found none
 * for `ms`, by its own monotonic clock. Expiry in the store depends on the time of day, and that clock may jump.
 */
export class ProcessSilence {
  readonly #ms: number;
  readonly #silent = new BoundedMap<string, { readonly since: number; lookedAt: number }>(OWNERS_MAX);

  constructor(ms: number) {
    this.#ms = ms;
  }

  isGone(owner: string, isSilent: boolean): boolean {
    const known = this.#silent.get(owner);
    this.#silent.delete(owner);
    if (!isSilent) return false;
    const now = performance.now();
    const since = known && now - known.lookedAt < FORGOTTEN_AFTER * this.#ms ? known.since : now;
    this.#silent.set(owner, { since, lookedAt: now });
    return now - since >= this.#ms;
  }
}

/** Two looks so many times `ms` apart say nothing of the time between them. */
const FORGOTTEN_AFTER = 20;
const OWNERS_MAX = 1_000;
