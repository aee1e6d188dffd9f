import { hash } from "node:crypto";
import { TokenBucket } from "./token-bucket.ts";

/**
 * The way in which several processes keep a limit together: each decides at once, by what the others said last, and makes
 * up later for what they took meanwhile. Who tells whom is not known here.
 */
export interface SharedLimits {
  /** Called before each use of a limit. Returns the use of all other processes; undefined where there are none. */
  using(limit: SharedLimit): LimitUse | undefined;
}

/** The use that one process makes of a limit, or several together. */
export interface LimitUse {
  /** How many were to be under way at once, refused ones included. */
  readonly wanted: number;
  readonly underWay: number;
  /** How many were to begin in a second, refused ones included. */
  readonly perSecond: number;
  /** How many began since the last time. */
  readonly begun: number;
}

export interface SharedLimit {
  /** The same in all processes. */
  readonly key: string;
  /** The tenant, or whoever else is limited: one of them cannot keep the others' limits from being told. */
  readonly owner: string;
  /** The use in the last `seconds`; undefined when this process uses the limit no more. */
  useIn(seconds: number, now: number): OwnUse | undefined;
  /** Other processes let so many begin. */
  charge(begun: number, now: number): void;
}

export interface OwnUse extends LimitUse {
  /** The part of the limit that it would take, at most 1: where that is small, the others need not know. */
  readonly weight: number;
}

/** How a limit is known to other processes. */
export interface Sharing {
  readonly by: SharedLimits;
  readonly owner: string;
  readonly key: string;
}

/** `name` tells limits of one owner apart; `id` is of any length. */
export function sharing(by: SharedLimits | undefined, owner: string, name: string, id = ""): Sharing | undefined {
  if (!by) return undefined;
  const key = JSON.stringify([name, owner, id]);
  return { by, owner, key: key.length > KEY_UNITS_MAX ? hash("sha256", key) : key };
}

const KEY_UNITS_MAX = 120;

/** A process that had nothing at all would never say that it needs more. */
const FLOOR = 0.05;

/**
 * The part of a limit, from 0 to 1, that one process may take: what the others leave, or what corresponds to its need
 * where all together need more than there is.
 */
export function partOf(limit: number, own: number, elsewhere: number): number {
  if (elsewhere === 0 || limit === Infinity) return 1;
  const need = Math.min(own, limit);
  return Math.max((limit - elsewhere) / limit, need / (need + elsewhere), FLOOR);
}

/** One bucket has room for what the others take until they are heard of again. */
const HEARD_WITHIN_MS = 1_000;
/** The other one has room for what comes while that bucket is empty, since the others were heard of. */
const HELD_UP_MS = 250;
/** A need is estimated over no shorter time. */
const NEED_MS = 100;

/**
 * How often something may begin, in all processes together: one bucket has all that may, from which what began
 * elsewhere is taken when it is heard of; another has the part of this process, so that not all take the same tokens
 * until then.
 */
export class SharedRate {
  readonly #all = new TokenBucket();
  readonly #own = new TokenBucket();
  #perMs = 0;
  #burst = 0;
  #wanted = 0;
  #begun = 0;
  #perSecond = 0;
  /** Since when `#wanted` is counted; undefined until something is to begin. */
  #since: number | undefined;

  /** Takes a token and returns 0, or returns the milliseconds until there is one. */
  take(now: number, perMs: number, burst: number, elsewhere: LimitUse | undefined): number {
    if (!elsewhere) return this.#all.take(now, perMs, burst);
    [this.#perMs, this.#burst] = [perMs, burst];
    this.#wanted += 1;
    this.#since ??= now;
    const need = Math.max(this.#perSecond, (this.#wanted * 1_000) / Math.max(NEED_MS, now - this.#since));
    const part = partOf(perMs * 1_000, need, elsewhere.perSecond);
    const waitMs = this.#all.take(now, perMs, burst + (1 - part) * perMs * HEARD_WITHIN_MS);
    if (waitMs > 0) return waitMs;
    if (part < 1 && this.#own.take(now, perMs * part, (burst + perMs * HELD_UP_MS) * part) > 0) {
      this.#all.takeBack();
      return Math.ceil(1 / perMs);
    }
    this.#begun += 1;
    return 0;
  }

  isFull(now: number, perMs: number, burst: number): boolean {
    return this.#all.isFull(now, perMs, burst);
  }

  charge(begun: number, now: number): void {
    if (this.#perMs > 0) this.#all.charge(begun, now, this.#perMs, this.#burst + this.#perMs * HEARD_WITHIN_MS);
  }

  /** `isUsed` is false when nothing was to begin, and none of the tokens is missed. */
  useIn(seconds: number, now: number) {
    const limit = this.#perMs * 1_000;
    const isUsed = this.#wanted > 0 || !this.isFull(now, this.#perMs, this.#burst);
    const perSecond = Math.min(limit, this.#wanted / seconds);
    const begun = this.#begun;
    [this.#perSecond, this.#wanted, this.#begun, this.#since] = [perSecond, 0, 0, undefined];
    return { isUsed, perSecond, begun, weight: limit === 0 ? 0 : perSecond / limit };
  }
}
