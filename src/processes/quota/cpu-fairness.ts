import { clock } from "../../lib/clock.ts";
import { HIGHEST_NICENESS } from "../niceness.ts";
import { PausedTrees } from "./paused-trees.ts";
import { WatchedTree, type MemoryLimit, type OnPoll, type WatchedLeader } from "./watched-tree.ts";

/**
 * Finds tenants whose processes use much CPU time. All processes of such a tenant run at a lower priority than those of
 * other tenants and the service itself until the tenant is calm again. Measures from outside, since a program's own
 * figures cannot be trusted. The same measurements enforce the tenants' limits of CPU time.
 */
export class CpuFairness {
  readonly #trees = new Map<WatchedLeader, WatchedTree>();
  readonly #tenants = new Map<string, Load>();
  /** Tenants that were at their limit of starts, with the time. */
  readonly #delayedAt = new Map<string, number>();
  readonly #calmMs: number;
  readonly #cpuMsPerSecond: (tenant: string) => number;
  #timer: NodeJS.Timeout | undefined;

  /** `calmMs`: how long a tenant must use little to be calm again; `cpuMsPerSecond`: its CPU limit, 0 for none. */
  constructor({ calmMs = CALM_MS, cpuMsPerSecond = () => 0 }: CpuFairnessOptions = {}) {
    this.#calmMs = calmMs;
    this.#cpuMsPerSecond = cpuMsPerSecond;
  }

  /** `isNice`: started at a low priority, which lasts while its tenant is heavy or at its limit of starts. */
  add(tenant: string, leader: WatchedLeader, { isNice = false, memory, onPoll: onLook }: WatchOptions = {}): void {
    const tree = new WatchedTree(tenant, leader, isNice, memory, onLook);
    this.#trees.set(leader, tree);
    const adjust = (): void => (this.isHeavy(tenant) ? tree.lowerAll() : this.#restorePriority(tree, clock.now()));
    if (isNice || this.isHeavy(tenant)) {
      adjust();
      // A tree that is starting is not complete yet.
      setTimeout(() => this.#trees.has(leader) && adjust(), STARTED_MS).unref();
    }
    if (process.platform === "linux") this.#timer ??= setInterval(() => this.#poll(clock.now()), POLL_MS).unref();
  }

  delete(leader: WatchedLeader): void {
    const tree = this.#trees.get(leader);
    if (tree?.pid !== undefined) this.#tenants.get(tree.tenant)?.allowance?.forget(tree.pid);
    this.#trees.delete(leader);
  }

  /**
   * Notes that the tenant has reached its limit of starts: until it is calm again, its new processes stay at the low
   * priority that they start with.
   */
  noteDelayed(tenant: string): void {
    this.#delayedAt.set(tenant, clock.now());
  }

  /** The niceness at which the tenant's processes start. */
  startNiceness(tenant: string): number {
    return this.isHeavy(tenant) ? HIGHEST_NICENESS : 0;
  }

  isHeavy(tenant: string): boolean {
    return this.#tenants.get(tenant)?.isHeavy === true;
  }

  /** The tenant's limit, if its processes were recently paused for it. */
  exceededMsPerSecond(tenant: string): number | undefined {
    return this.#tenants.get(tenant)?.allowance?.isExceeded ? this.#cpuMsPerSecond(tenant) : undefined;
  }

  close(): void {
    clearInterval(this.#timer);
    for (const { allowance } of this.#tenants.values()) allowance?.drop();
  }

  #poll(now: number): void {
    for (const [tenant, since] of this.#delayedAt) if (now - since > this.#calmMs) this.#delayedAt.delete(tenant);
    for (const load of this.#tenants.values()) Object.assign(load, { share: 0, demand: 0, usedMs: 0 });
    for (const tree of this.#trees.values()) {
      const { share, demand, usedMs } = tree.poll(now);
      if (share > 0) {
        const load = this.#loadFor(tree.tenant);
        load.share += share;
        load.demand += demand;
        load.usedMs += usedMs;
      }
      if (!this.isHeavy(tree.tenant)) this.#restorePriority(tree, now);
    }
    for (const [tenant, load] of this.#tenants) {
      this.#charge(tenant, load, now);
      if (load.share > CALM_SHARE) load.calmSince = now;
      if (load.share > HEAVY_SHARE || (load.share > CALM_SHARE && load.demand > HIGH_DEMAND)) load.isHeavy = true;
      else if (now - load.calmSince > this.#calmMs) {
        if (load.isHeavy) for (const tree of this.#treesOf(tenant)) tree.raise();
        load.allowance?.drop();
        this.#tenants.delete(tenant);
        continue;
      }
      if (load.isHeavy) for (const tree of this.#treesOf(tenant)) tree.lower();
    }
    if (this.#trees.size > 0 || this.#tenants.size > 0 || this.#delayedAt.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #charge(tenant: string, load: Load, now: number): void {
    const msPerSecond = this.#cpuMsPerSecond(tenant);
    if (msPerSecond > 0) {
      load.allowance ??= new CpuAllowance(msPerSecond, now);
      const leaders = Array.from(this.#treesOf(tenant), ({ pid }) => pid).filter((pid) => pid !== undefined);
      load.allowance.charge(load.usedMs, msPerSecond, leaders, now);
    } else if (load.allowance) {
      load.allowance.drop();
      load.allowance = undefined;
    }
  }

  #restorePriority(tree: WatchedTree, now: number): void {
    if (now - (this.#delayedAt.get(tree.tenant) ?? -Infinity) > this.#calmMs) tree.restorePriority();
  }

  #loadFor(tenant: string): Load {
    const existing = this.#tenants.get(tenant);
    if (existing) return existing;
    const load: Load = { isHeavy: false, share: 0, demand: 0, usedMs: 0, calmSince: 0, allowance: undefined };
    this.#tenants.set(tenant, load);
    return load;
  }

  *#treesOf(tenant: string): Iterable<WatchedTree> {
    for (const tree of this.#trees.values()) if (tree.tenant === tenant) yield tree;
  }
}

/**
 * The CPU time that a tenant has left. Once it is used up, the tenant's processes are stopped (`SIGSTOP`) until there
 * is some again. Calls wait meanwhile, within their deadlines.
 */
class CpuAllowance {
  /** True from when processes were paused until the allowance is full again. */
  isExceeded = false;
  readonly #paused = new PausedTrees(2 * POLL_MS);
  #leftMs: number;
  #chargedAt: number;

  constructor(msPerSecond: number, now: number) {
    this.#leftMs = msPerSecond;
    this.#chargedAt = now;
  }

  /** Charges what the trees of `leaders` have used since the last charge. */
  charge(usedMs: number, msPerSecond: number, leaders: readonly number[], now: number): void {
    const earnedMs = ((now - this.#chargedAt) / 1_000) * msPerSecond;
    this.#leftMs = Math.max(-DEBT_S * msPerSecond, Math.min(msPerSecond, this.#leftMs + earnedMs - usedMs));
    this.#chargedAt = now;
    if (this.#leftMs > 0) {
      this.isExceeded &&= this.#leftMs < msPerSecond;
      this.#paused.resume();
    } else {
      this.isExceeded = true;
      this.#paused.pauseAgain();
      this.#paused.pause(leaders, now);
    }
  }

  /** Forgets a process that has ended. */
  forget(leader: number): void {
    this.#paused.forget(leader);
  }

  drop(): void {
    this.#paused.resume();
  }
}

interface WatchOptions {
  readonly isNice?: boolean;
  /** Checked each time the tree is measured, at most four times a second. */
  readonly memory?: MemoryLimit;
  readonly onPoll?: OnPoll;
}

export interface CpuFairnessOptions {
  readonly calmMs?: number;
  readonly cpuMsPerSecond?: (tenant: string) => number;
}

/** A tenant's usage since the last measurement. */
interface Load {
  isHeavy: boolean;
  share: number;
  demand: number;
  usedMs: number;
  calmSince: number;
  /** Undefined if the tenant has no limit. */
  allowance: CpuAllowance | undefined;
}

const POLL_MS = 250;
/** The time in which a sandbox is usually set up. */
const STARTED_MS = 30;
/** The share of one CPU that all processes of the tenant use together. */
const HEAVY_SHARE = 0.5;
/** On a busy machine each process gets little; so does one that waits for others but needs little. */
const HIGH_DEMAND = 0.9;
const CALM_SHARE = 0.1;
const CALM_MS = 5_000;
/** The largest overuse that a tenant has to make up for, in seconds of its limit. */
const DEBT_S = 60;
