import { tenantSetting, type TenantLimits } from "../limits/limits.ts";
import { clock } from "./clock.ts";
import { BerthError } from "./errors.ts";
import {
  SharedRate,
  shareLimit,
  type OwnUse,
  type SharedLimit,
  type SharedLimits,
  type Sharing,
} from "./shared-limits.ts";

export interface BucketRate {
  /** The average rate; 0 for no limit. */
  readonly perMinute: number;
  /** The burst allowed after an idle period. */
  readonly burst: number;
}

/** Several processes share a limit if they use the same name. */
export interface SharedName {
  readonly by: SharedLimits | undefined;
  readonly name: string;
}

/** Limits how often something may start, per tenant. */
export class TokenBuckets {
  readonly #tenantRate: (tenant: string) => BucketRate;
  readonly #shared: SharedName | undefined;
  readonly #buckets = new Map<string, Bucket>();

  /** Each process has its own limit unless it is `shared`. */
  constructor(tenantRate: (tenant: string) => BucketRate, shared?: SharedName) {
    this.#tenantRate = tenantRate;
    this.#shared = shared;
  }

  /** Takes a token and returns 0, or returns the milliseconds until there is one; `now` is of any monotonic clock. */
  take(tenant: string, now: number): number {
    const { perMinute, burst } = this.#tenantRate(tenant);
    if (perMinute === 0) return 0;
    const perMs = perMinute / 60_000;
    const bucket = this.#buckets.get(tenant) ?? this.#create(tenant, burst, now, perMs);
    return bucket.take(now, perMs, burst);
  }

  /** Takes a token, or throws `too_many_requests` with the allowed rate and the time of the next token. */
  check(tenant: string, allowed: (perMinute: number) => string): void {
    const waitMs = this.take(tenant, clock.now());
    if (waitMs === 0) return;
    const retryAfterSeconds = Math.ceil(waitMs / 1000);
    const detail = `${allowed(this.#tenantRate(tenant).perMinute)}; try again in ${retryAfterSeconds} s`;
    throw new BerthError("too_many_requests", detail, { data: { retryAfterSeconds } });
  }

  #create(tenant: string, burst: number, now: number, perMs: number): Bucket {
    if (this.#buckets.size >= TENANTS_MAX) {
      for (const [name, bucket] of this.#buckets) {
        if (bucket.isFull(now, perMs, burst)) this.#buckets.delete(name);
      }
    }
    const { by, name = "" } = this.#shared ?? {};
    const bucket = new Bucket(shareLimit(by, tenant, name));
    this.#buckets.set(tenant, bucket);
    return bucket;
  }
}

class Bucket implements SharedLimit {
  readonly #by: SharedLimits | undefined;
  readonly key: string;
  readonly owner: string;
  readonly #rate = new SharedRate();

  constructor({ by, key, owner }: Partial<Sharing> = {}) {
    this.#by = by;
    this.key = key ?? "";
    this.owner = owner ?? "";
  }

  take(now: number, perMs: number, burst: number): number {
    return this.#rate.take(now, perMs, burst, this.#by?.using(this));
  }

  isFull(now: number, perMs: number, burst: number): boolean {
    return this.#rate.isFull(now, perMs, burst);
  }

  useIn(seconds: number, now: number): OwnUse | undefined {
    const { isUsed, ...use } = this.#rate.useIn(seconds, now);
    return isUsed ? { ...use, wanted: 0, underWay: 0 } : undefined;
  }

  charge(begun: number, now: number): void {
    this.#rate.charge(begun, now);
  }
}

/** Returns a function that throws `too_many_requests` if a tenant does something too often. */
export function createRateLimiter(
  does: string,
  limit: keyof TenantLimits,
  tenantPerMinute: (tenant: string) => number = () => 0,
  by?: SharedLimits,
) {
  const tenantRate = (tenant: string): BucketRate => {
    const perMinute = tenantPerMinute(tenant);
    return { perMinute, burst: perMinute / 4 };
  };
  const buckets = new TokenBuckets(tenantRate, { by, name: does });
  return (tenant: string): void =>
    buckets.check(
      tenant,
      (perMinute) => `the tenant "${tenant}" may ${does} ${perMinute} times a minute (${tenantSetting(limit)})`,
    );
}

/** The number of tenants above which idle ones are removed. */
const TENANTS_MAX = 1_000;
