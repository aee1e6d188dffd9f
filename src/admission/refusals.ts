import { BerthError } from "../lib/errors.ts";

/** A request above a limit; `retryAfterSeconds` of its data becomes the header `Retry-After` (RFC 9110, 10.2.3). */
export class TooManyRequests extends BerthError {
  /** The refusals of its sender. */
  readonly refusals: Refusals;

  constructor(why: string, retryAfterSeconds: number, refusals: Refusals) {
    super("too_many_requests", `${why}; try again in ${retryAfterSeconds} s`, { data: { retryAfterSeconds } });
    this.refusals = refusals;
  }
}

/**
 * Paces the answers to refused requests of one tenant, token or address. The first ones are answered at once, and so is
 * a fixed number in each second. Further ones are answered no sooner than the client was told to retry, so that each of
 * its connections brings one request in that time and not as many as it can send. Waiting answers are sent one by one,
 * so that clients do not all retry at the same moment; above the most that may wait, there is no answer at all.
 */
export class Refusals {
  #atOnce = AT_ONCE;
  #filledAt = -Infinity;
  #lastAt = -Infinity;
  #waiting = 0;

  /**
   * The milliseconds until the next refusal is answered, whose sender is asked to retry after `retryMs`; undefined if
   * it never is. `now` is in milliseconds of any steady clock. Unless the result is 0, call `told` later.
   */
  next(now: number, retryMs: number): number | undefined {
    this.#atOnce = Math.min(AT_ONCE, this.#atOnce + ((now - this.#filledAt) / 1_000) * AT_ONCE_PER_SECOND);
    this.#filledAt = now;
    if (this.#atOnce >= 1) {
      this.#atOnce -= 1;
      return 0;
    }
    if (this.#waiting >= WAITING_MAX) return undefined;
    this.#waiting += 1;
    const wanted = Math.max(now + Math.min(retryMs, WAIT_MAX_MS), this.#lastAt + APART_MS);
    // Senders that were to be answered earlier may have gone since, and nobody waits behind them.
    this.#lastAt = Math.min(wanted, now + WAIT_MAX_MS + this.#waiting * APART_MS);
    return this.#lastAt - now;
  }

  /** A delayed refusal is answered now, or its sender has gone. */
  readonly told = (): void => {
    this.#waiting -= 1;
  };
}

const AT_ONCE = 50;
const AT_ONCE_PER_SECOND = 50;
const WAITING_MAX = 500;
const WAIT_MAX_MS = 5_000;
const APART_MS = 10;
