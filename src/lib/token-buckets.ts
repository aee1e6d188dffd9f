import { BerthError } from "./errors.ts";

export interface BucketRate {
  /** The average rate; 0 for no limit. */
  readonly perMinute: number;
  /** The burst that is allowed after a time of rest. */
  readonly burst: number;
}

/** Limits how often something may begin for each tenant (a token bucket each). */
export class TokenBuckets {
  readonly #rateOf: (tenant: string) => BucketRate;
  readonly #buckets = new Map<string, { tokens: number; filledAt: number }>();

  constructor(rateOf: (tenant: string) => BucketRate) {
    this.#rateOf = rateOf;
  }

  /** Takes a token and returns 0, or returns the milliseconds until there is one; `now` is of any steady clock. */
  take(tenant: string, now: number): number {
    const { perMinute, burst } = this.#rateOf(tenant);
    if (perMinute === 0) return 0;
    const perMs = perMinute / 60_000;
    const bucket = this.#buckets.get(tenant) ?? this.#create(tenant, burst, now, perMs);
    bucket.tokens = Math.min(Math.max(1, burst), bucket.tokens + (now - bucket.filledAt) * perMs);
    bucket.filledAt = now;
    if (bucket.tokens < 1) return Math.ceil((1 - bucket.tokens) / perMs);
    bucket.tokens -= 1;
    return 0;
  }

  /** Takes a token, or throws `too_many_requests` with the allowed rate and the time of the next one. */
  check(tenant: string, allowed: (perMinute: number) => string): void {
    const waitMs = this.take(tenant, performance.now());
    if (waitMs === 0) return;
    const retryAfterSeconds = Math.ceil(waitMs / 1000);
    const detail = `${allowed(this.#rateOf(tenant).perMinute)}; try again in ${retryAfterSeconds} s`;
    throw new BerthError("too_many_requests", detail, { data: { retryAfterSeconds } });
  }

  #create(tenant: string, burst: number, now: number, perMs: number): { tokens: number; filledAt: number } {
    if (this.#buckets.size >= REMEMBERED_MAX) {
      for (const [name, { tokens, filledAt }] of this.#buckets) {
        if (tokens + (now - filledAt) * perMs >= burst) this.#buckets.delete(name);
      }
    }
    const bucket = { tokens: Math.max(1, burst), filledAt: now };
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
      (perMinute) => `the tenant "${tenant}" may ${does} ${perMinute} times a minute, which is its limit ${limit}`,
    );
}

/** The number of tenants above which idle ones are forgotten. */
const REMEMBERED_MAX = 1_000;
