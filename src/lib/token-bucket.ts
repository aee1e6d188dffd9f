/** Fills at a steady rate up to its burst, and whatever begins takes a token. `now` is in milliseconds of any steady clock. */
export class TokenBucket {
  /** The tokens at `#filledAt`; at first more than it can hold. */
  #tokens = Infinity;
  #filledAt = 0;

  /** Takes a token and returns 0, or returns the milliseconds until there is one. */
  take(now: number, perMs: number, burst: number): number {
    const tokens = this.#tokensAt(now, perMs, burst);
    this.#filledAt = now;
    if (tokens < 1) {
      this.#tokens = tokens;
      return Math.ceil((1 - tokens) / perMs);
    }
    this.#tokens = tokens - 1;
    return 0;
  }

  /** The last token that was taken is not needed. */
  takeBack(): void {
    this.#tokens += 1;
  }

  /** Takes tokens that others used already, whether they are there or not. */
  charge(tokens: number, now: number, perMs: number, burst: number): void {
    this.#tokens = this.#tokensAt(now, perMs, burst) - tokens;
    this.#filledAt = now;
  }

  isFull(now: number, perMs: number, burst: number): boolean {
    return this.#tokensAt(now, perMs, burst) >= Math.max(1, burst);
  }

  #tokensAt(now: number, perMs: number, burst: number): number {
    return Math.min(Math.max(1, burst), this.#tokens + (now - this.#filledAt) * perMs);
  }
}
