import { TokenBucket } from "../lib/token-buckets.ts";
import { Refusals, TooManyRequests } from "./refusals.ts";

/** The share of one tenant or principal. */
export interface GateLimits {
  /** Requests under way at once, open streams among them. */
  readonly requests: number;
  /** Requests that may begin in a second, on average; 0 means no limit. */
  readonly requestsPerSecond: number;
  /** Requests that may begin at once after a pause; 0 means as many as in a second. */
  readonly requestBurst: number;
}

/**
 * Counts the requests of one tenant or principal and refuses those above its limits: a cap on those under way, and a
 * token bucket for how often they may begin. Nothing is allocated for a request that enters.
 */
export class Gate {
  readonly #who: string;
  readonly #what: string;
  readonly #limits: GateLimits;
  readonly #burst: number;
  readonly #bucket = new TokenBucket();
  #refusals: Refusals | undefined;
  #underWay = 0;

  /** Refusals name `who`, and `what` is counted. */
  constructor(who: string, limits: GateLimits, what = "requests") {
    this.#who = who;
    this.#what = what;
    this.#limits = limits;
    this.#burst = limits.requestBurst || limits.requestsPerSecond;
  }

  get underWay(): number {
    return this.#underWay;
  }

  /** True when it can be forgotten and made again unnoticed. */
  isAtRest(now: number): boolean {
    return this.#underWay === 0 && this.#bucket.isFull(now, this.#limits.requestsPerSecond / 1000, this.#burst);
  }

  /** One request enters, at `now` in milliseconds of any steady clock. Throws `too_many_requests`. */
  enter(now: number): void {
    const { requests, requestsPerSecond } = this.#limits;
    if (this.#underWay >= requests) {
      throw this.#refusal(`has ${requests} ${this.#what} under way, the most that it may`, 1);
    }
    if (requestsPerSecond > 0) {
      const waitMs = this.#bucket.take(now, requestsPerSecond / 1000, this.#burst);
      if (waitMs > 0) {
        throw this.#refusal(`may begin ${requestsPerSecond} ${this.#what} a second`, Math.ceil(waitMs / 1000));
      }
    }
    this.#underWay += 1;
  }

  /** A request that entered is over. */
  leave(): void {
    this.#underWay -= 1;
  }

  #refusal(why: string, seconds: number): TooManyRequests {
    this.#refusals ??= new Refusals();
    return new TooManyRequests(`${this.#who} ${why}`, seconds, this.#refusals);
  }
}
