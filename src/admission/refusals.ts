import { BerthError } from "../lib/errors.ts";

/** A request above a limit; `retryAfterSeconds` of its data becomes the header `Retry-After` (RFC 9110, 10.2.3). */
export class TooManyRequests extends BerthError {
  /** Those of whoever sent it. */
  readonly refusals: Refusals;

  constructor(why: string, retryAfterSeconds: number, refusals: Refusals) {
    super("too_many_requests", `${why}; try again in ${retryAfterSeconds} s`, { data: { retryAfterSeconds } });
    this.refusals = refusals;
  }
}

/**
 * How soon the refusals of one tenant, token or address are told. The first ones are told at once, and so many more in
 * each second. Whoever goes on regardless is told no sooner than it was to come again, so that each of its connections
 * brings one request in that time and not as many as it can send; those that wait are told one by one, so that they do
 * not all come again at the same moment; and what is above the most that may wait so is not told at all.
 */
export class Refusals {
  #atOnce = AT_ONCE;
  #filledAt = -Infinity;
  #lastAt = -Infinity;
  #waiting = 0;

  /**
   * In how many milliseconds the next one is told, who sent it being asked to come again after `retryMs`; undefined when
   * it never is. `now` in milliseconds of any steady clock. Unless it is 0, `told` is to follow.
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
    // Those who were to be told before may have gone since, and nobody waits behind them.
    this.#lastAt = Math.min(wanted, now + WAIT_MAX_MS + this.#waiting * APART_MS);
    return this.#lastAt - now;
  }

  /** One that was to be told later is told now, or nobody is there any more to hear it. */
  readonly told = (): void => {
    this.#waiting -= 1;
  };
}

const AT_ONCE = 50;
const AT_ONCE_PER_SECOND = 50;
const WAITING_MAX = 500;
const WAIT_MAX_MS = 5_000;
const APART_MS = 10;
