/**
 * The share of the serving process's time that one tenant's guests may take with their output: it is parsed there, and
 * a few bytes can be made expensive to parse. Guests of a tenant that has used up the share are not read from for a
 * while; only that tenant's calls wait.
 */
const SHARE = 0.25;
const AT_ONCE_MS = 250;

export class ReadingTime {
  #leftMs = AT_ONCE_MS;
  #countedAt = performance.now();

  /** Takes `ms` of time from the share; returns how long to pause reading. */
  spend(ms: number, now: number): number {
    this.#leftMs = Math.min(AT_ONCE_MS, this.#leftMs + (now - this.#countedAt) * SHARE) - ms;
    this.#countedAt = now;
    return this.#leftMs < 0 ? -this.#leftMs / SHARE : 0;
  }
}
