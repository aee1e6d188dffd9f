import { hash } from "node:crypto";
import { TokenBucket } from "./token-bucket.ts";

/**
 * Lets several processes share a limit: each decides immediately, by the last reports of the others, and makes up later
 * for what they used meanwhile. How reports are exchanged is not known here.
 */
export interface SharedLimits {
  /** Called before each use of a limit. Returns the usage of all other processes; undefined if there are none. */
  using(limit: SharedLimit): LimitUse | undefined;
}

/** The usage of a limit by one process, or by several together. */
export interface LimitUse {
  /** Requested concurrency, including refused requests. */
  readonly wanted: number;
  readonly underWay: number;
  /** Requested starts per second, including refused ones. */
  readonly perSecond: number;
  /** Starts since the last report. */
  readonly begun: number;
}

export interface SharedLimit {
  /** The same in all processes. */
  readonly key: string;
  /** The tenant or other subject of the limit: no single owner can keep the limits of others from being reported. */
  readonly owner: string;
  /** The usage in the last `seconds`; undefined if this process no longer uses the limit. */
  useIn(seconds: number, now: number): OwnUse | undefined;
  /** Charges starts in other processes. */
  charge(begun: number, now: number): void;
}

export interface OwnUse extends LimitUse {
  /** The share of the limit that it would take, at most 1: small shares need not be reported. */
  readonly weight: number;
}

/** How a limit is identified to other processes. */
export interface Sharing {
  readonly by: SharedLimits;
  readonly owner: string;
  readonly key: string;
}

/** `name` distinguishes the limits of one owner; `id` may have any length. */
export function shareLimit(by: SharedLimits | undefined, owner: string, name: string, id = ""): Sharing | undefined {
  if (!by) return undefined;
  const key = JSON.stringify([name, owner, id]);
  return { by, owner, key: key.length > KEY_UNITS_MAX ? hash("sha256", key) : key };
}

const KEY_UNITS_MAX = 120;

/** A process without any share would never report that it needs more. */
const SHARE_MIN = 0.05;

/**
 * The share of a limit, from 0 to 1, that one process may take: what the others leave, or a share proportional to its
 * demand if the total demand exceeds the limit.
 */
export function shareOfLimit(limit: number, ownDemand: number, othersDemand: number): number {
  if (othersDemand === 0 || limit === Infinity) return 1;
  const demand = Math.min(ownDemand, limit);
  return Math.max((limit - othersDemand) / limit, demand / (demand + othersDemand), SHARE_MIN);
}

/** One bucket has capacity for what other processes use until their next report. */
const REPORT_WITHIN_MS = 1_000;
/** The other one has capacity for requests that arrive while that bucket is empty, since the last report. */
const BACKLOG_MS = 250;
/** Demand is estimated over at least this time. */
const DEMAND_WINDOW_MS = 100;

/**
 * The rate at which something may start, over all processes: one bucket has all tokens, and is charged for starts in
 * other processes when they are reported; another one has this process's share, so that not all processes take the same
 * tokens until then.
 */
export class SharedRate {
  readonly #all = new TokenBucket();
  readonly #own = new TokenBucket();
  #perMs = 0;
  #burst = 0;
  #requested = 0;
  #started = 0;
  #perSecond = 0;
  /** Since when `#requested` counts; undefined until the first request. */
  #since: number | undefined;

  /** Takes a token and returns 0, or returns the milliseconds until there is one. */
  take(now: number, perMs: number, burst: number, others: LimitUse | undefined): number {
    if (!others) return this.#all.take(now, perMs, burst);
    [this.#perMs, this.#burst] = [perMs, burst];
    this.#requested += 1;
    this.#since ??= now;
    const demand = Math.max(this.#perSecond, (this.#requested * 1_000) / Math.max(DEMAND_WINDOW_MS, now - this.#since));
    const share = shareOfLimit(perMs * 1_000, demand, others.perSecond);
    const waitMs = this.#all.take(now, perMs, burst + (1 - share) * perMs * REPORT_WITHIN_MS);
    if (waitMs > 0) return waitMs;
    if (share < 1 && this.#own.take(now, perMs * share, (burst + perMs * BACKLOG_MS) * share) > 0) {
      this.#all.refund();
      return Math.ceil(1 / perMs);
    }
    this.#started += 1;
    return 0;
  }

  isFull(now: number, perMs: number, burst: number): boolean {
    return this.#all.isFull(now, perMs, burst);
  }

  charge(begun: number, now: number): void {
    if (this.#perMs > 0) this.#all.charge(begun, now, this.#perMs, this.#burst + this.#perMs * REPORT_WITHIN_MS);
  }

  /** `isUsed` is false if nothing was requested and no token is missing. */
  useIn(seconds: number, now: number) {
    const limit = this.#perMs * 1_000;
    const isUsed = this.#requested > 0 || !this.isFull(now, this.#perMs, this.#burst);
    const perSecond = Math.min(limit, this.#requested / seconds);
    const begun = this.#started;
    [this.#perSecond, this.#requested, this.#started, this.#since] = [perSecond, 0, 0, undefined];
    return { isUsed, perSecond, begun, weight: limit === 0 ? 0 : perSecond / limit };
  }
}
