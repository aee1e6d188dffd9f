import {
  partOf,
  SharedRate,
  type OwnUse,
  type SharedLimit,
  type SharedLimits,
  type Sharing,
  type LimitUse,
} from "../lib/shared-limits.ts";
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

/** The settings that change the limits, for whoever is refused: of requests under way, and of those in a second. */
export interface GateSettings {
  readonly requests: string;
  readonly requestsPerSecond: string;
}

/**
 * Counts the requests of one tenant or principal and refuses those above its limits: a cap on those under way, and a
 * token bucket for how often they may begin. Where several processes serve, a shared gate admits its part of both.
 * Nothing is allocated for a request that enters.
 */
export class Gate implements SharedLimit {
  readonly key: string;
  readonly owner: string;
  readonly #by: SharedLimits | undefined;
  readonly #who: string;
  readonly #what: string;
  readonly #limits: GateLimits;
  readonly #settings: GateSettings;
  readonly #burst: number;
  readonly #rate = new SharedRate();
  #refusals: Refusals | undefined;
  #underWay = 0;
  /** The most that were to be under way at once, and those that were refused for that, since the others were told. */
  #most = 0;
  #turnedAway = 0;
  #wanted = 0;

  /** Refusals name `who`, and `what` is counted. */
  constructor(
    who: string,
    limits: GateLimits,
    settings: GateSettings,
    what = "requests",
    { by, owner, key }: Partial<Sharing> = {},
  ) {
    this.#settings = settings;
    this.#by = by;
    this.owner = owner ?? "";
    this.key = key ?? "";
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
    return this.#underWay === 0 && this.#rate.isFull(now, this.#limits.requestsPerSecond / 1000, this.#burst);
  }

  /** One request enters, at `now` in milliseconds of any steady clock. Throws `too_many_requests`. */
  enter(now: number): void {
    const { requests, requestsPerSecond } = this.#limits;
    const elsewhere = this.#by?.using(this);
    if (this.#underWay >= (elsewhere ? this.#roomBeside(elsewhere) : requests)) {
      this.#turnedAway += 1;
      throw this.#refusal(
        `has ${requests} ${this.#what} under way, the most that it may (${this.#settings.requests})`,
        1,
      );
    }
    if (requestsPerSecond > 0) {
      const waitMs = this.#rate.take(now, requestsPerSecond / 1000, this.#burst, elsewhere);
      if (waitMs > 0) {
        const why = `may begin ${requestsPerSecond} ${this.#what} a second (${this.#settings.requestsPerSecond})`;
        throw this.#refusal(why, Math.ceil(waitMs / 1000));
      }
    }
    this.#underWay += 1;
    if (this.#underWay > this.#most) this.#most = this.#underWay;
  }

  /** A request that entered is over. */
  leave(): void {
    this.#underWay -= 1;
  }

  useIn(seconds: number, now: number): OwnUse | undefined {
    const { requests } = this.#limits;
    const { isUsed, ...rate } = this.#rate.useIn(seconds, now);
    const wanted = this.#most + this.#turnedAway;
    this.#wanted = Math.min(requests, wanted);
    [this.#most, this.#turnedAway] = [this.#underWay, 0];
    if (wanted === 0 && !isUsed) return undefined;
    const weight = Math.max(rate.weight, this.#wanted / requests);
    return { ...rate, wanted: this.#wanted, underWay: this.#underWay, weight };
  }

  charge(begun: number, now: number): void {
    this.#rate.charge(begun, now);
  }

  /** Requests under way elsewhere count whatever part their processes have: an open stream lasts for hours. */
  #roomBeside(elsewhere: LimitUse): number {
    const { requests } = this.#limits;
    const need = Math.max(this.#wanted, this.#underWay + this.#turnedAway);
    const part = Math.ceil(requests * partOf(requests, need, elsewhere.wanted));
    return Math.min(part, requests - elsewhere.underWay);
  }

  #refusal(why: string, seconds: number): TooManyRequests {
    this.#refusals ??= new Refusals();
    return new TooManyRequests(`${this.#who} ${why}`, seconds, this.#refusals);
  }
}
