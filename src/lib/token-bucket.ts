/** Fills at a steady rate up to its burst; a start takes a token. `now` is in milliseconds of any monotonic clock. */
export class TokenBucket {
  /** The tokens at `#filledAt`; initially more than it can hold. */
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

  /** Returns the last token that was taken. */
  refund(): void {
    this.#tokens += 1;
  }

  /** Charges tokens that were used elsewhere, whether they are available or not. */
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
