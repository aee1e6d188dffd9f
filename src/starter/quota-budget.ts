import type { ProcessorQuota } from "./processor-quota.ts";

/**
 * What is left of a quota at this moment: it fills at three quarters of the quota's pace, up to a tenth of a period's,
 * and what is used is taken out of it. Whoever stops when it is empty stays within the quota in each period, although
 * nobody tells when one begins, and although looks have a distance.
 */
export class QuotaBudget {
  readonly processors: number;
  /** More than half of the quota is used. */
  isBusy = false;
  readonly #quota: ProcessorQuota;
  readonly #room: number;
  #left: number;
  #usedMs: number;
  #lookedAt: number;

  constructor(quota: ProcessorQuota, now: number) {
    this.processors = quota.processors;
    this.#quota = quota;
    this.#room = quota.processors * quota.periodMs * ROOM;
    this.#left = this.#room;
    this.#usedMs = quota.usedMs();
    this.#lookedAt = now;
  }

  isOf({ processors, periodMs }: ProcessorQuota): boolean {
    return processors === this.processors && periodMs === this.#quota.periodMs;
  }

  /** Throws when nothing tells any more what is used. */
  look(now: number): void {
    const usedMs = this.#quota.usedMs();
    const used = usedMs - this.#usedMs;
    const mayUse = (now - this.#lookedAt) * this.processors;
    this.isBusy = used > mayUse / 2;
    this.#left = Math.min(this.#room, Math.max(-DEBT * this.#room, this.#left + mayUse * SHARE - used));
    this.#usedMs = usedMs;
    this.#lookedAt = now;
  }

  get isRested(): boolean {
    return this.#left > this.#room / 2;
  }

  get isSpent(): boolean {
    return this.#left <= 0;
  }

  get isOverdrawn(): boolean {
    return this.#left < -this.#room;
  }
}

const SHARE = 0.75;
/** Of what a period allows. */
const ROOM = 0.1;
/** Times the room; more of it is forgotten, so that what gives way does not wait long for what others have used. */
const DEBT = 4;
