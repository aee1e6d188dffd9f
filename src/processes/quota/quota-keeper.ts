import { getPriority } from "node:os";
import { HIGHEST_NICENESS, OWN_NICENESS } from "../niceness.ts";
import { PausedTrees } from "./paused-trees.ts";
import type { ProcessorQuota } from "./processor-quota.ts";

/**
 * Keeps all processes that share a quota of processor time within it. Linux stops all of a group that has used up its
 * quota until the next period, whatever the priorities: then a busy process makes the serving ones wait. So runnable
 * processes that give way (a niceness above the serving process's) are paused before that, and get what the others
 * leave: first those that give way to everybody, then the rest. None is paused for ever, as with priorities.
 */
export class QuotaKeeper {
  readonly #find: () => ProcessorQuota | undefined;
  /** Leaders of running groups. */
  readonly #leaders = new Set<number>();
  /** The processes that give way to everybody. */
  readonly #last = new PausedTrees(JUST_MS);
  readonly #others = new PausedTrees(JUST_MS);
  #budget: QuotaBudget | undefined;
  #foundAt = -Infinity;
  #someResumedAt = -Infinity;
  #busyAt = -Infinity;
  #timer: NodeJS.Timeout | undefined;

  /** `find` is called again from time to time: a quota can change while its processes run. */
  constructor(find: () => ProcessorQuota | undefined) {
    this.#find = find;
  }

  started(leader: number): void {
    this.#leaders.add(leader);
    this.#busyAt = performance.now();
    // Where there was no quota a moment ago, a start is not delayed by looking for one.
    if (this.#budget || this.#timer === undefined) this.#lookIn(this.#budget ? LOOK_MS : 0);
  }

  ended(leader: number): void {
    this.#leaders.delete(leader);
    this.#last.forget(leader);
    this.#others.forget(leader);
  }

  /** Lets all processes run on, and stops measuring. */
  close(): void {
    clearTimeout(this.#timer);
    this.#leaders.clear();
    this.#resumeAll();
  }

  readonly #look = (): void => {
    this.#timer = undefined;
    const lookAgainMs = this.#keep(performance.now());
    if (this.#leaders.size > 0) this.#lookIn(lookAgainMs);
  };

  #lookIn(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.#look, ms).unref();
  }

  /** Returns the milliseconds until the next look. */
  #keep(now: number): number {
    try {
      if (now - this.#foundAt >= FIND_MS) this.#findAgain(now);
      this.#budget?.look(now);
    } catch {
      // The quota has gone, or its figures have.
      this.#budget = undefined;
    }
    const budget = this.#budget;
    if (!budget) {
      this.#resumeAll();
      return FIND_MS;
    }
    const [last, others] = this.#yielding();
    if (budget.isSpent) this.#last.pause(last, now);
    else if (budget.isRested) this.#resumeSome(budget.processors, now);
    if (budget.isOverdrawn) this.#others.pause(others, now);
    else if (!budget.isSpent) this.#others.resume();
    this.#last.resumeAfter(LAST_PAUSED_MS, LOOK_MS, now);
    this.#others.resumeAfter(OTHERS_PAUSED_MS, OTHERS_PAUSED_MS, now);
    if (last.length + others.length === 0) return IDLE_MS;
    if (last.length > 0 || (others.length > 0 && budget.isBusy)) this.#busyAt = now;
    return now - this.#busyAt < BUSY_MS ? LOOK_MS : REST_MS;
  }

  /** Resumes at most as many as there are processors: the rest of the quota shows only at the next look. */
  #resumeSome(processors: number, now: number): void {
    if (now - this.#someResumedAt < RESUMED_MS) return;
    this.#someResumedAt = now;
    this.#last.resume(Math.max(1, Math.floor(processors)));
  }

  #findAgain(now: number): void {
    this.#foundAt = now;
    const quota = this.#find();
    if (!quota) this.#budget = undefined;
    else if (!this.#budget?.isOf(quota)) this.#budget = new QuotaBudget(quota, now);
  }

  /** The processes that give way to everybody, and those that give way to some. */
  #yielding(): [last: number[], others: number[]] {
    const [last, others]: [number[], number[]] = [[], []];
    for (const leader of this.#leaders) {
      const niceness = nicenessOf(leader);
      const givesWay = niceness > OWN_NICENESS;
      const isLast = givesWay && niceness >= LAST_NICENESS;
      if (!isLast) this.#last.resumeTree(leader);
      if (isLast || !givesWay) this.#others.resumeTree(leader);
      if (givesWay) (isLast ? last : others).push(leader);
    }
    return [last, others];
  }

  #resumeAll(): void {
    this.#last.resume();
    this.#others.resume();
  }
}

/** From here on a process gives way to everybody: 15 more than the service, or the highest niceness. */
const LAST_NICENESS = Math.min(OWN_NICENESS + 15, HIGHEST_NICENESS);
/** The longest pause at a stretch: each process gets a little of every second. */
const LAST_PAUSED_MS = 500;
/** Likewise, and how long they then run: where calls alone need the quota, they get half of the time. */
const OTHERS_PAUSED_MS = 100;
const LOOK_MS = 10;
/** A few looks, some of which are late. */
const JUST_MS = 50;
/** The time until resumed processes have used up the rest, or leave some for others. */
const RESUMED_MS = 30;
/** Shorter than two processors take to use up one processor's usual period. */
const REST_MS = 40;
/** The delay before a process that keeps up with all may begin to give way. */
const IDLE_MS = 250;
/** A process that used much may do so again. */
const BUSY_MS = 1_000;
const FIND_MS = 10_000;

function nicenessOf(pid: number): number {
  try {
    return getPriority(pid);
  } catch {
    return 0;
  }
}

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
