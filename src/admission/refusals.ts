import { BerthError } from "../lib/errors.ts";

/** A request above a limit. `data.retryAfterSeconds` becomes the header `Retry-After` (RFC 9110, 10.2.3). */
export class TooManyRequests extends BerthError {
  /** The pending rejections of the same tenant, token or address. */
  readonly refusals: Refusals;

  constructor(why: string, retryAfterSeconds: number, refusals: Refusals) {
    super("too_many_requests", `${why}; try again in ${retryAfterSeconds} s`, { data: { retryAfterSeconds } });
    this.refusals = refusals;
  }
}

/**
 * Paces the responses to rejected requests of one tenant, token or address. An initial burst and a fixed number per
 * second are answered immediately. Further responses are delayed at least until the client may retry, so each of its
 * connections sends one request in that time rather than as many as it can. Delayed responses are spaced out so that
 * clients do not all retry at the same moment. Above the maximum number of delayed ones, there is no response at all.
 */
export class Refusals {
  #burst = BURST;
  #refilledAt = -Infinity;
  #lastSlotAt = -Infinity;
  #delayed = 0;

  /**
   * Returns how many milliseconds to delay the next rejection, whose client is asked to retry after `retryMs`;
   * undefined if it gets no response. `now` is in milliseconds of any monotonic clock. Unless the result is 0, call
   * `settled` later.
   */
  next(now: number, retryMs: number): number | undefined {
    this.#burst = Math.min(BURST, this.#burst + ((now - this.#refilledAt) / 1_000) * BURST_PER_SECOND);
    this.#refilledAt = now;
    if (this.#burst >= 1) {
      this.#burst -= 1;
      return 0;
    }
    if (this.#delayed >= DELAYED_MAX) return undefined;
    this.#delayed += 1;
    const slotAt = Math.max(now + Math.min(retryMs, DELAY_MAX_MS), this.#lastSlotAt + SPACING_MS);
    // Clients with earlier slots may have disconnected since: do not wait for those slots.
    this.#lastSlotAt = Math.min(slotAt, now + DELAY_MAX_MS + this.#delayed * SPACING_MS);
    return this.#lastSlotAt - now;
  }

  /** A delayed response was sent, or its client has disconnected. */
  readonly told = (): void => {
    this.#delayed -= 1;
  };
}

const BURST = 50;
const BURST_PER_SECOND = 50;
const DELAYED_MAX = 500;
const DELAY_MAX_MS = 5_000;
const SPACING_MS = 10;
