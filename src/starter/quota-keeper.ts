import { getPriority } from "node:os";
import { HeldTrees } from "../processes/held-trees.ts";
import type { ProcessorQuota } from "./processor-quota.ts";
import { QuotaBudget } from "./quota-budget.ts";

/**
 * Keeps all that shares a quota of processor time within it. Who has used up the quota is stopped as a whole until the
 * next period, whatever the priorities: then a process that burns has those wait that serve. So what gives way (a
 * niceness above that of who serves) and would run is held up before that, and gets what the others leave: first what gives way to
 * everybody, then the rest of it. None is held up without end, as with priorities.
 */
export class QuotaKeeper {
  readonly #find: () => ProcessorQuota | undefined;
  /** Leaders of groups that run. */
  readonly #leaders = new Set<number>();
  /** Those that give way to everybody. */
  readonly #last = new HeldTrees(JUST_MS);
  readonly #others = new HeldTrees(JUST_MS);
  #budget: QuotaBudget | undefined;
  #foundAt = -Infinity;
  #someWentAt = -Infinity;
  #busyAt = -Infinity;
  #timer: NodeJS.Timeout | undefined;

  /** `find` is asked again from time to time: a quota can be changed while who has it runs. */
  constructor(find: () => ProcessorQuota | undefined) {
    this.#find = find;
  }

  started(leader: number): void {
    this.#leaders.add(leader);
    this.#busyAt = performance.now();
    // Where there was no quota a moment ago, no start is made longer by looking for one.
    if (this.#budget || this.#timer === undefined) this.#lookIn(this.#budget ? LOOK_MS : 0);
  }

  ended(leader: number): void {
    this.#leaders.delete(leader);
    this.#last.forget(leader);
    this.#others.forget(leader);
  }

  /** Lets all go on, and looks no more. */
  close(): void {
    clearTimeout(this.#timer);
    this.#leaders.clear();
    this.#letAllGo();
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

  /** In how many milliseconds to look again. */
  #keep(now: number): number {
    try {
      if (now - this.#foundAt >= FIND_MS) this.#findAgain(now);
      this.#budget?.look(now);
    } catch {
      // The quota has gone, or what tells of it.
      this.#budget = undefined;
    }
    const budget = this.#budget;
    if (!budget) {
      this.#letAllGo();
      return FIND_MS;
    }
    const [last, others] = this.#yielding();
    if (budget.isSpent) this.#last.hold(last, now);
    else if (budget.isRested) this.#letSomeGo(budget.processors, now);
    if (budget.isOverdrawn) this.#others.hold(others, now);
    else if (!budget.isSpent) this.#others.letGo();
    this.#last.letGoAfter(LAST_HELD_MS, LOOK_MS, now);
    this.#others.letGoAfter(OTHERS_HELD_MS, OTHERS_HELD_MS, now);
    if (last.length + others.length === 0) return IDLE_MS;
    if (last.length > 0 || (others.length > 0 && budget.isBusy)) this.#busyAt = now;
    return now - this.#busyAt < BUSY_MS ? LOOK_MS : REST_MS;
  }

  /** No more of them than there are processors for: what is left shows only at the next look. */
  #letSomeGo(processors: number, now: number): void {
    if (now - this.#someWentAt < GOING_MS) return;
    this.#someWentAt = now;
    this.#last.letGo(Math.max(1, Math.floor(processors)));
  }

  #findAgain(now: number): void {
    this.#foundAt = now;
    const quota = this.#find();
    if (!quota) this.#budget = undefined;
    else if (!this.#budget?.isOf(quota)) this.#budget = new QuotaBudget(quota, now);
  }

  /** Those that give way to everybody, and those that give way to some. */
  #yielding(): [last: number[], others: number[]] {
    const [last, others]: [number[], number[]] = [[], []];
    for (const leader of this.#leaders) {
      const niceness = nicenessOf(leader);
      const givesWay = niceness > OWN_NICENESS;
      const isLast = givesWay && niceness >= LAST_NICENESS;
      if (!isLast) this.#last.letGoOf(leader);
      if (isLast || !givesWay) this.#others.letGoOf(leader);
      if (givesWay) (isLast ? last : others).push(leader);
    }
    return [last, others];
  }

  #letAllGo(): void {
    this.#last.letGo();
    this.#others.letGo();
  }
}

/** Who starts the service may have all of it give way: what has no more than this keeps up with who serves. */
const OWN_NICENESS = nicenessOf(process.pid);
/** From here on a process gives way to everybody: 15 more than the service, or the highest niceness that there is. */
const LAST_NICENESS = Math.min(OWN_NICENESS + 15, 19);
/** At a stretch: each has a little of every second. */
const LAST_HELD_MS = 500;
/** The same, and how long they go on afterwards: where calls alone need the quota, they have half of the time. */
const OTHERS_HELD_MS = 100;
const LOOK_MS = 10;
/** A few looks, of which some are late. */
const JUST_MS = 50;
/** Until those that were let go have used up what there was, or leave something for others. */
const GOING_MS = 30;
/** Before two processors have used up what one may in the usual period. */
const REST_MS = 40;
/** Before who keeps up with all may begin to give way. */
const IDLE_MS = 250;
/** What used much may do so again. */
const BUSY_MS = 1_000;
const FIND_MS = 10_000;

function nicenessOf(pid: number): number {
  try {
    return getPriority(pid);
  } catch {
    return 0;
  }
}
