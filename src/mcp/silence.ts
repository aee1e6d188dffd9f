/**
 * When another process counts as gone that the store has no sign of life of: once whoever looks has found none for
 * `ms` by a clock of his own. What the store holds ends at a time of day, and that clock may leap.
 */
export class Silence {
  readonly #ms: number;
  readonly #silent = new Map<string, { readonly since: number; lookedAt: number }>();

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
    if (this.#silent.size > OWNERS_MAX) this.#silent.delete(this.#silent.keys().next().value!);
    return now - since >= this.#ms;
  }
}

/** Nobody knows what was in between two looks that are so many times `ms` apart. */
const FORGOTTEN_AFTER = 20;
const OWNERS_MAX = 1_000;
