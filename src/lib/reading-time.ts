/**
 * The share of the host's own time that one tenant's guests may take by what they write: parsing is done in the serving
 * process, and a few bytes can be made expensive to parse. Whoever has used up the share is not read from for a while;
 * its own calls wait, nobody else's do.
 */
const SHARE = 0.25;
const AT_ONCE_MS = 250;

export class ReadingTime {
  #leftMs = AT_ONCE_MS;
  #countedAt = performance.now();

  /** Takes `ms` of time from the share; returns for how long to read no more. */
  spend(ms: number, now: number): number {
    this.#leftMs = Math.min(AT_ONCE_MS, this.#leftMs + (now - this.#countedAt) * SHARE) - ms;
    this.#countedAt = now;
    return this.#leftMs < 0 ? -this.#leftMs / SHARE : 0;
  }
}
