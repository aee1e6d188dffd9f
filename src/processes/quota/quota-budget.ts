import type { ProcessorQuota } from "./processor-quota.ts";

/**
 * The rest of a quota at this moment: it fills at three quarters of the quota's pace, up to a tenth of a period's, and
 * use is subtracted. Stopping when it is empty keeps within the quota in each period, although nobody knows when one
 * begins, and measurements are some time apart.
 */
export class QuotaBudget {
  readonly processors: number;
  /** True when more than half of the quota is used. */
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

  /** Throws when the use can no longer be read. */
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
/** The share of a period's quota that the budget may hold. */
const ROOM = 0.1;
/**
 * In multiples of the room; a larger debt is forgotten, so that processes that give way do not wait long for the use of
 * others.
 */
const DEBT = 4;
