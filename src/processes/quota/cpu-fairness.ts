import { clock } from "../../lib/clock.ts";
import { HIGHEST_NICENESS } from "../niceness.ts";
import { PausedTrees } from "./paused-trees.ts";
import { WatchedTree, type MemoryLimit, type OnLook, type WatchedLeader } from "./watched-tree.ts";

/**
 * Finds the tenants whose processes use much processor time. All processes of such a tenant give way to those of others
 * and to the service itself until the tenant is calm again: they get what is left over. It measures from outside, since
 * a program may say what it likes. The same measurements enforce the tenants' limits of processor time.
 */
export class CpuFairness {
  readonly #trees = new Map<WatchedLeader, WatchedTree>();
  readonly #tenants = new Map<string, Load>();
  /** Tenants that had to wait for a start, and when they last had to. */
  readonly #waited = new Map<string, number>();
  readonly #calmMs: number;
  readonly #cpuMsPerSecondOf: (tenant: string) => number;
  #timer: NodeJS.Timeout | undefined;

  /**
   * `calmMs`: how long a tenant must use little to be calm again; `cpuMsPerSecondOf`: how much its processes may
   * use, 0 for no limit.
   */
  constructor({ calmMs = CALM_MS, cpuMsPerSecondOf = () => 0 }: CpuFairnessOptions = {}) {
    this.#calmMs = calmMs;
    this.#cpuMsPerSecondOf = cpuMsPerSecondOf;
  }

  /** `isNice`: it was started with a niceness, which lasts only while its tenant is heavy or waits for starts. */
  add(tenant: string, leader: WatchedLeader, { isNice = false, memory, onLook }: WatchOptions = {}): void {
    const tree = new WatchedTree(tenant, leader, isNice, memory, onLook);
    this.#trees.set(leader, tree);
    const settle = (): void => (this.isHeavy(tenant) ? tree.lowerAll() : this.#letKeepUp(tree, clock.now()));
    if (isNice || this.isHeavy(tenant)) {
      settle();
      // A tree that is just starting is not complete yet.
      setTimeout(() => this.#trees.has(leader) && settle(), STARTED_MS).unref();
    }
    if (process.platform === "linux") this.#timer ??= setInterval(() => this.#look(clock.now()), LOOK_MS).unref();
  }

  delete(leader: WatchedLeader): void {
    const tree = this.#trees.get(leader);
    if (tree?.pid !== undefined) this.#tenants.get(tree.tenant)?.allowance?.forget(tree.pid);
    this.#trees.delete(leader);
  }

  /**
   * The tenant has reached its limit of starts: until it is calm again, its new processes give way as they did when
   * they started.
   */
  noteWaiting(tenant: string): void {
    this.#waited.set(tenant, clock.now());
  }

  /** The niceness with which the tenant's processes start. */
  nicenessOf(tenant: string): number {
    return this.isHeavy(tenant) ? HIGHEST_NICENESS : 0;
  }

  isHeavy(tenant: string): boolean {
    return this.#tenants.get(tenant)?.isHeavy === true;
  }

  /** The tenant's limit, where its processes have been paused for it lately. */
  exceededMsPerSecond(tenant: string): number | undefined {
    return this.#tenants.get(tenant)?.allowance?.isExceeded ? this.#cpuMsPerSecondOf(tenant) : undefined;
  }

  close(): void {
    clearInterval(this.#timer);
    for (const { allowance } of this.#tenants.values()) allowance?.drop();
  }

  #look(now: number): void {
    for (const [tenant, since] of this.#waited) if (now - since > this.#calmMs) this.#waited.delete(tenant);
    for (const load of this.#tenants.values()) Object.assign(load, { share: 0, wanted: 0, usedMs: 0 });
    for (const tree of this.#trees.values()) {
      const { share, wanted, usedMs } = tree.look(now);
      if (share > 0) {
        const load = this.#loadOf(tree.tenant);
        load.share += share;
        load.wanted += wanted;
        load.usedMs += usedMs;
      }
      if (!this.isHeavy(tree.tenant)) this.#letKeepUp(tree, now);
    }
    for (const [tenant, load] of this.#tenants) {
      this.#charge(tenant, load, now);
      if (load.share > CALM_SHARE) load.calmSince = now;
      if (load.share > HEAVY_SHARE || (load.share > CALM_SHARE && load.wanted > WANTED_SHARE)) load.isHeavy = true;
      else if (now - load.calmSince > this.#calmMs) {
        if (load.isHeavy) for (const tree of this.#of(tenant)) tree.raise();
        load.allowance?.drop();
        this.#tenants.delete(tenant);
        continue;
      }
      if (load.isHeavy) for (const tree of this.#of(tenant)) tree.lower();
    }
    if (this.#trees.size > 0 || this.#tenants.size > 0 || this.#waited.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #charge(tenant: string, load: Load, now: number): void {
    const msPerSecond = this.#cpuMsPerSecondOf(tenant);
    if (msPerSecond > 0) {
      load.allowance ??= new CpuAllowance(msPerSecond, now);
      const leaders = Array.from(this.#of(tenant), ({ pid }) => pid).filter((pid) => pid !== undefined);
      load.allowance.charge(load.usedMs, msPerSecond, leaders, now);
    } else if (load.allowance) {
      load.allowance.drop();
      load.allowance = undefined;
    }
  }

  #letKeepUp(tree: WatchedTree, now: number): void {
    if (now - (this.#waited.get(tree.tenant) ?? -Infinity) > this.#calmMs) tree.keepUp();
  }

  #loadOf(tenant: string): Load {
    const known = this.#tenants.get(tenant);
    if (known) return known;
    const load: Load = { isHeavy: false, share: 0, wanted: 0, usedMs: 0, calmSince: 0, allowance: undefined };
    this.#tenants.set(tenant, load);
    return load;
  }

  *#of(tenant: string): Iterable<WatchedTree> {
    for (const tree of this.#trees.values()) if (tree.tenant === tenant) yield tree;
  }
}

/**
 * The processor time that a tenant may still use: its processes stand still (`SIGSTOP`) once they have used it up, until
 * there is some again. Calls wait meanwhile, within their own time.
 */
class CpuAllowance {
  /** True from when processes were paused until the tenant again has all that it may have at once. */
  isExceeded = false;
  readonly #paused = new PausedTrees(2 * LOOK_MS);
  #leftMs: number;
  #chargedAt: number;

  constructor(msPerSecond: number, now: number) {
    this.#leftMs = msPerSecond;
    this.#chargedAt = now;
  }

  /** Charges what the trees of `leaders` have used since the last time. */
  charge(usedMs: number, msPerSecond: number, leaders: readonly number[], now: number): void {
    const comes = ((now - this.#chargedAt) / 1_000) * msPerSecond;
    this.#leftMs = Math.max(-DEBT_S * msPerSecond, Math.min(msPerSecond, this.#leftMs + comes - usedMs));
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
  /** Checked each time the tree is measured, four times a second at most. */
  readonly memory?: MemoryLimit;
  readonly onLook?: OnLook;
}

export interface CpuFairnessOptions {
  readonly calmMs?: number;
  readonly cpuMsPerSecondOf?: (tenant: string) => number;
}

/** A tenant's use since the last measurement. */
interface Load {
  isHeavy: boolean;
  share: number;
  wanted: number;
  usedMs: number;
  calmSince: number;
  /** Undefined where the tenant has no limit. */
  allowance: CpuAllowance | undefined;
}

const LOOK_MS = 250;
/** The time in which a sandbox has usually been set up. */
const STARTED_MS = 30;
/** The share of one processor that all processes of the tenant use together. */
const HEAVY_SHARE = 0.5;
/** Where many are busy, each gets little; so does a process that has to wait for them but would use little. */
const WANTED_SHARE = 0.9;
const CALM_SHARE = 0.1;
const CALM_MS = 5_000;
/** The most overuse that a tenant pays back, in seconds of its limit. */
const DEBT_S = 60;
