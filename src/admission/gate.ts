import {
  shareOfLimit,
  SharedRate,
  type OwnUse,
  type SharedLimit,
  type SharedLimits,
  type Sharing,
  type LimitUse,
} from "../lib/shared-limits.ts";
import { Refusals, TooManyRequests } from "./refusals.ts";

export interface GateLimits {
  /** Concurrent requests, including open streams. */
  readonly requests: number;
  /** Requests that may begin per second, on average; 0 means no limit. */
  readonly requestsPerSecond: number;
  /** Requests that may begin at once after a pause; 0 means as many as in one second. */
  readonly requestBurst: number;
}

/** Names of the settings behind the limits, for error messages. */
export interface GateSettings {
  readonly requests: string;
  readonly requestsPerSecond: string;
}

/**
 * Counts the requests of one tenant or principal and rejects those above its limits: a cap on concurrent requests, and
 * a token bucket for the rate at which they begin. In a cluster, a shared gate admits this process's part of both.
 * Admitting a request allocates nothing.
 */
export class Gate implements SharedLimit {
  readonly key: string;
  readonly owner: string;
  readonly #sharedLimits: SharedLimits | undefined;
  readonly #subject: string;
  readonly #counted: string;
  readonly #limits: GateLimits;
  readonly #settings: GateSettings;
  readonly #burst: number;
  readonly #rate = new SharedRate();
  #refusals: Refusals | undefined;
  #active = 0;
  /** The peak of concurrent requests since the last report to the other processes, and the number of those rejected. */
  #peak = 0;
  #rejected = 0;
  #demand = 0;

  /** Error messages name the `subject` that is limited, and what is `counted`. */
  constructor(
    subject: string,
    limits: GateLimits,
    settings: GateSettings,
    counted = "requests",
    { by: sharedLimits, owner, key }: Partial<Sharing> = {},
  ) {
    this.#settings = settings;
    this.#sharedLimits = sharedLimits;
    this.owner = owner ?? "";
    this.key = key ?? "";
    this.#subject = subject;
    this.#counted = counted;
    this.#limits = limits;
    this.#burst = limits.requestBurst || limits.requestsPerSecond;
  }

  get active(): number {
    return this.#active;
  }

  /** True if it can be removed and created again without any effect. */
  isIdle(now: number): boolean {
    return this.#active === 0 && this.#rate.isFull(now, this.#limits.requestsPerSecond / 1000, this.#burst);
  }

  /** Admits one request at `now`, in milliseconds of any monotonic clock. Throws `too_many_requests`. */
  enter(now: number): void {
    const { requests, requestsPerSecond } = this.#limits;
    const otherUse = this.#sharedLimits?.using(this);
    if (this.#active >= (otherUse ? this.#capacityBeside(otherUse) : requests)) {
      this.#rejected += 1;
      throw this.#refusal(
        `already has ${requests} ${this.#counted} in progress, the maximum (${this.#settings.requests})`,
        1,
      );
    }
    if (requestsPerSecond > 0) {
      const waitMs = this.#rate.take(now, requestsPerSecond / 1000, this.#burst, otherUse);
      if (waitMs > 0) {
        const why = `is limited to ${requestsPerSecond} ${this.#counted} per second (${this.#settings.requestsPerSecond})`;
        throw this.#refusal(why, Math.ceil(waitMs / 1000));
      }
    }
    this.#active += 1;
    if (this.#active > this.#peak) this.#peak = this.#active;
  }

  /** Called when an admitted request is over. */
  leave(): void {
    this.#active -= 1;
  }

  useIn(seconds: number, now: number): OwnUse | undefined {
    const { requests } = this.#limits;
    const { isUsed, ...rate } = this.#rate.useIn(seconds, now);
    const demand = this.#peak + this.#rejected;
    this.#demand = Math.min(requests, demand);
    [this.#peak, this.#rejected] = [this.#active, 0];
    if (demand === 0 && !isUsed) return undefined;
    const weight = Math.max(rate.weight, this.#demand / requests);
    return { ...rate, wanted: this.#demand, underWay: this.#active, weight };
  }

  charge(begun: number, now: number): void {
    this.#rate.charge(begun, now);
  }

  /** Requests in progress in other processes always count in full, because an open stream lasts for hours. */
  #capacityBeside(otherUse: LimitUse): number {
    const { requests } = this.#limits;
    const demand = Math.max(this.#demand, this.#active + this.#rejected);
    const share = Math.ceil(requests * shareOfLimit(requests, demand, otherUse.wanted));
    return Math.min(share, requests - otherUse.underWay);
  }

  #refusal(why: string, seconds: number): TooManyRequests {
    this.#refusals ??= new Refusals();
    return new TooManyRequests(`${this.#subject} ${why}`, seconds, this.#refusals);
  }
}
