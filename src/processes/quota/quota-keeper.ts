import { getPriority } from "node:os";
import { HIGHEST_NICENESS, OWN_NICENESS } from "../niceness.ts";
import type { CpuQuota } from "./cpu-quota.ts";
import { PausedTrees } from "./paused-trees.ts";

/**
 * Keeps all processes that share a CPU quota within it. When a group has used up its quota, Linux stops all of it until
 * the next period, whatever the priorities, so a busy process delays the serving ones. Before that happens, this pauses
 * runnable processes with a lower priority than the serving process: first those of the lowest priority, then the rest.
 * As with priorities, no process is paused permanently.
 */
export class QuotaKeeper {
  readonly #find: () => CpuQuota | undefined;
  /** Leaders of running groups. */
  readonly #leaders = new Set<number>();
  /** The processes of the lowest priority. */
  readonly #lowest = new PausedTrees(RECENT_MS);
  readonly #low = new PausedTrees(RECENT_MS);
  #budget: QuotaBudget | undefined;
  #searchedAt = -Infinity;
  #resumedAt = -Infinity;
  #busyAt = -Infinity;
  #timer: NodeJS.Timeout | undefined;

  /** `find` is called repeatedly: a quota can change while its processes run. */
  constructor(find: () => CpuQuota | undefined) {
    this.#find = find;
  }

  started(leader: number): void {
    this.#leaders.add(leader);
    this.#busyAt = performance.now();
    // If there was no quota recently, a start is not delayed by searching for one.
    if (this.#budget || this.#timer === undefined) this.#pollIn(this.#budget ? POLL_MS : 0);
  }

  ended(leader: number): void {
    this.#leaders.delete(leader);
    this.#lowest.forget(leader);
    this.#low.forget(leader);
  }

  /** Resumes all processes, and stops measuring. */
  close(): void {
    clearTimeout(this.#timer);
    this.#leaders.clear();
    this.#resumeAll();
  }

  readonly #poll = (): void => {
    this.#timer = undefined;
    const nextMs = this.#enforce(performance.now());
    if (this.#leaders.size > 0) this.#pollIn(nextMs);
  };

  #pollIn(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.#poll, ms).unref();
  }

  /** Returns the milliseconds until the next poll. */
  #enforce(now: number): number {
    try {
      if (now - this.#searchedAt >= FIND_MS) this.#updateQuota(now);
      this.#budget?.measure(now);
    } catch {
      // The quota or its figures no longer exist.
      this.#budget = undefined;
    }
    const budget = this.#budget;
    if (!budget) {
      this.#resumeAll();
      return FIND_MS;
    }
    const [lowest, low] = this.#byPriority();
    if (budget.isSpent) this.#lowest.pause(lowest, now);
    else if (budget.isHalfFull) this.#resumeSome(budget.cpus, now);
    if (budget.isOverdrawn) this.#low.pause(low, now);
    else if (!budget.isSpent) this.#low.resume();
    this.#lowest.resumeAfter(LOWEST_PAUSED_MS, POLL_MS, now);
    this.#low.resumeAfter(LOW_PAUSED_MS, LOW_PAUSED_MS, now);
    if (lowest.length + low.length === 0) return IDLE_MS;
    if (lowest.length > 0 || (low.length > 0 && budget.isBusy)) this.#busyAt = now;
    return now - this.#busyAt < BUSY_MS ? POLL_MS : REST_MS;
  }

  /** Resumes at most as many as there are CPUs: what is left of the quota shows only at the next poll. */
  #resumeSome(processors: number, now: number): void {
    if (now - this.#resumedAt < RESUME_EVERY_MS) return;
    this.#resumedAt = now;
    this.#lowest.resume(Math.max(1, Math.floor(processors)));
  }

  #updateQuota(now: number): void {
    this.#searchedAt = now;
    const quota = this.#find();
    if (!quota) this.#budget = undefined;
    else if (!this.#budget?.matches(quota)) this.#budget = new QuotaBudget(quota, now);
  }

  /** The processes of the lowest priority, and the others with a lower priority than the service. */
  #byPriority(): [last: number[], others: number[]] {
    const [lowest, low]: [number[], number[]] = [[], []];
    for (const leader of this.#leaders) {
      const niceness = readNiceness(leader);
      const isLow = niceness > OWN_NICENESS;
      const isLowest = isLow && niceness >= LOWEST_PRIORITY_NICENESS;
      if (!isLowest) this.#lowest.resumeTree(leader);
      if (isLowest || !isLow) this.#low.resumeTree(leader);
      if (isLow) (isLowest ? lowest : low).push(leader);
    }
    return [lowest, low];
  }

  #resumeAll(): void {
    this.#lowest.resume();
    this.#low.resume();
  }
}

/** From here on a process counts as lowest: 15 more than the service, or the highest niceness. */
const LOWEST_PRIORITY_NICENESS = Math.min(OWN_NICENESS + 15, HIGHEST_NICENESS);
/** The longest continuous pause: each process gets a little of every second. */
const LOWEST_PAUSED_MS = 500;
/** The same for the others, and how long they then run: if calls alone need the quota, they get half of the time. */
const LOW_PAUSED_MS = 100;
const POLL_MS = 10;
/** A few polls, some of which are late. */
const RECENT_MS = 50;
/** The time until resumed processes have used up the rest, or have shown that they leave some. */
const RESUME_EVERY_MS = 30;
/** Shorter than two CPUs take to use up one CPU's usual period. */
const REST_MS = 40;
/** The delay before the priority of a process may be lowered. */
const IDLE_MS = 250;
/** A process that used much may do so again. */
const BUSY_MS = 1_000;
const FIND_MS = 10_000;

function readNiceness(pid: number): number {
  try {
    return getPriority(pid);
  } catch {
    return 0;
  }
}

/**
 * The current rest of a quota: it fills at three quarters of the quota's rate, up to a tenth of a period, and usage is
 * subtracted. Pausing when it is empty stays within the quota in each period, although it is unknown when one begins
 * and measurements are some time apart.
 */
export class QuotaBudget {
  readonly cpus: number;
  /** True when more than half of the quota is used. */
  isBusy = false;
  readonly #quota: CpuQuota;
  readonly #capacity: number;
  #left: number;
  #usedMs: number;
  #measuredAt: number;

  constructor(quota: CpuQuota, now: number) {
    this.cpus = quota.cpus;
    this.#quota = quota;
    this.#capacity = quota.cpus * quota.periodMs * CAPACITY;
    this.#left = this.#capacity;
    this.#usedMs = quota.usedMs();
    this.#measuredAt = now;
  }

  matches({ cpus: processors, periodMs }: CpuQuota): boolean {
    return processors === this.cpus && periodMs === this.#quota.periodMs;
  }

  /** Throws when the usage can no longer be read. */
  measure(now: number): void {
    const usedMs = this.#quota.usedMs();
    const used = usedMs - this.#usedMs;
    const available = (now - this.#measuredAt) * this.cpus;
    this.isBusy = used > available / 2;
    this.#left = Math.min(this.#capacity, Math.max(-DEBT_MAX * this.#capacity, this.#left + available * SHARE - used));
    this.#usedMs = usedMs;
    this.#measuredAt = now;
  }

  get isHalfFull(): boolean {
    return this.#left > this.#capacity / 2;
  }

  get isSpent(): boolean {
    return this.#left <= 0;
  }

  get isOverdrawn(): boolean {
    return this.#left < -this.#capacity;
  }
}

const SHARE = 0.75;
/** The capacity of the budget, as a share of a period's quota. */
const CAPACITY = 0.1;
/**
 * The largest debt, in multiples of the capacity; more is ignored, so that low-priority processes do not wait long
 * because of the usage of others.
 */
const DEBT_MAX = 4;
