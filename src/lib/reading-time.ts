/**
 * The share of the serving process's time that the output of one tenant's guests may take: it is parsed there, and a
 * few bytes can be made expensive to parse. When a tenant has used up its share, its guests are not read for a while;
 * only that tenant's calls wait.
 */
const SHARE = 0.25;
const BURST_MS = 250;

export class ReadingTime {
  #leftMs = BURST_MS;
  #countedAt = performance.now();

  /** Charges `ms` to the share; returns how long to pause reading. */
  spend(ms: number, now: number): number {
    this.#leftMs = Math.min(BURST_MS, this.#leftMs + (now - this.#countedAt) * SHARE) - ms;
    this.#countedAt = now;
    return this.#leftMs < 0 ? -this.#leftMs / SHARE : 0;
  }
}
