import { BerthError } from "./errors.ts";

export interface BucketRate {
  /** The average rate; 0 for no limit. */
  readonly perMinute: number;
  /** The burst that is allowed after a time of rest. */
  readonly burst: number;
}

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

  isFull(now: number, perMs: number, burst: number): boolean {
    return this.#tokensAt(now, perMs, burst) >= Math.max(1, burst);
  }

  #tokensAt(now: number, perMs: number, burst: number): number {
    return Math.min(Math.max(1, burst), this.#tokens + (now - this.#filledAt) * perMs);
  }
}

/** Limits how often something may begin for each tenant. */
export class TokenBuckets {
  readonly #rateOf: (tenant: string) => BucketRate;
  readonly #buckets = new Map<string, TokenBucket>();

  constructor(rateOf: (tenant: string) => BucketRate) {
    this.#rateOf = rateOf;
  }

  /** Takes a token and returns 0, or returns the milliseconds until there is one; `now` is of any steady clock. */
  take(tenant: string, now: number): number {
    const { perMinute, burst } = this.#rateOf(tenant);
    if (perMinute === 0) return 0;
    const perMs = perMinute / 60_000;
    const bucket = this.#buckets.get(tenant) ?? this.#create(tenant, burst, now, perMs);
    return bucket.take(now, perMs, burst);
  }

  /** Takes a token, or throws `too_many_requests` with the allowed rate and the time of the next one. */
  check(tenant: string, allowed: (perMinute: number) => string): void {
    const waitMs = this.take(tenant, performance.now());
    if (waitMs === 0) return;
    const retryAfterSeconds = Math.ceil(waitMs / 1000);
    const detail = `${allowed(this.#rateOf(tenant).perMinute)}; try again in ${retryAfterSeconds} s`;
    throw new BerthError("too_many_requests", detail, { data: { retryAfterSeconds } });
  }

  #create(tenant: string, burst: number, now: number, perMs: number): TokenBucket {
    if (this.#buckets.size >= REMEMBERED_MAX) {
      for (const [name, bucket] of this.#buckets) {
        if (bucket.isFull(now, perMs, burst)) this.#buckets.delete(name);
      }
    }
    const bucket = new TokenBucket();
    this.#buckets.set(tenant, bucket);
    return bucket;
  }
}

/** Returns a function that throws `too_many_requests` where a tenant does something too often. */
export function limitedPerMinute(does: string, limit: string, perMinuteOf: (tenant: string) => number = () => 0) {
  const buckets = new TokenBuckets((tenant) => {
    const perMinute = perMinuteOf(tenant);
    return { perMinute, burst: perMinute / 4 };
  });
  return (tenant: string): void =>
    buckets.check(
      tenant,
      (perMinute) => `the tenant "${tenant}" may ${does} ${perMinute} times a minute, its limit ${limit}`,
    );
}

/** The number of tenants above which idle ones are forgotten. */
const REMEMBERED_MAX = 1_000;
