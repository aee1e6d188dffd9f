import { BerthError } from "../errors.ts";

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
 * How soon the refusals of one tenant, token or address are told. The first ones of each second are told at once. Whoever
 * goes on regardless is told no sooner than it was to come again, so that each of its connections brings one request in
 * that time and not as many as it can send; and what is above the most that may wait so is not told at all.
 */
export class Refusals {
  #since = -Infinity;
  #toldAtOnce = 0;
  #waiting = 0;

  /** At `now` in milliseconds of any steady clock. */
  next(now: number): "at once" | "later" | "never" {
    if (now - this.#since >= 1_000) {
      this.#since = now;
      this.#toldAtOnce = 0;
    }
    if (this.#toldAtOnce < AT_ONCE_PER_SECOND) {
      this.#toldAtOnce += 1;
      return "at once";
    }
    if (this.#waiting >= WAITING_MAX) return "never";
    this.#waiting += 1;
    return "later";
  }

  /** One that was to be told later is told now, or nobody is there any more to hear it. */
  readonly told = (): void => {
    this.#waiting -= 1;
  };
}

const AT_ONCE_PER_SECOND = 50;
const WAITING_MAX = 500;
