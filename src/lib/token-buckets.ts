import { tenantSetting, type TenantLimits } from "../limits/limits.ts";
import { clock } from "./clock.ts";
import { BerthError } from "./errors.ts";
import {
  SharedRate,
  sharing,
  type OwnUse,
  type SharedLimit,
  type SharedLimits,
  type Sharing,
} from "./shared-limits.ts";

export interface BucketRate {
  /** The average rate; 0 for no limit. */
  readonly perMinute: number;
  /** The burst that is allowed after a time of rest. */
  readonly burst: number;
}

/** Several processes keep a limit together if they know it by the same name. */
export interface SharedName {
  readonly by: SharedLimits | undefined;
  readonly name: string;
}

/** Limits how often something may begin for each tenant. */
export class TokenBuckets {
  readonly #rateOf: (tenant: string) => BucketRate;
  readonly #shared: SharedName | undefined;
  readonly #buckets = new Map<string, Bucket>();

  /** Each process has its own limit unless it is `shared`. */
  constructor(rateOf: (tenant: string) => BucketRate, shared?: SharedName) {
    this.#rateOf = rateOf;
    this.#shared = shared;
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
    const waitMs = this.take(tenant, clock.now());
    if (waitMs === 0) return;
    const retryAfterSeconds = Math.ceil(waitMs / 1000);
    const detail = `${allowed(this.#rateOf(tenant).perMinute)}; try again in ${retryAfterSeconds} s`;
    throw new BerthError("too_many_requests", detail, { data: { retryAfterSeconds } });
  }

  #create(tenant: string, burst: number, now: number, perMs: number): Bucket {
    if (this.#buckets.size >= REMEMBERED_MAX) {
      for (const [name, bucket] of this.#buckets) {
        if (bucket.isFull(now, perMs, burst)) this.#buckets.delete(name);
      }
    }
    const { by, name = "" } = this.#shared ?? {};
    const bucket = new Bucket(sharing(by, tenant, name));
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

/** Returns a function that throws `too_many_requests` where a tenant does something too often. */
export function limitedPerMinute(
  does: string,
  limit: keyof TenantLimits,
  perMinuteOf: (tenant: string) => number = () => 0,
  by?: SharedLimits,
) {
  const rateOf = (tenant: string): BucketRate => {
    const perMinute = perMinuteOf(tenant);
    return { perMinute, burst: perMinute / 4 };
  };
  const buckets = new TokenBuckets(rateOf, { by, name: does });
  return (tenant: string): void =>
    buckets.check(
      tenant,
      (perMinute) => `the tenant "${tenant}" may ${does} ${perMinute} times a minute (${tenantSetting(limit)})`,
    );
}

/** The number of tenants above which idle ones are forgotten. */
const REMEMBERED_MAX = 1_000;
