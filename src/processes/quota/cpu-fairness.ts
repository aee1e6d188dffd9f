import type { GuestFailure } from "../../executor/executor.ts";
import { timedOut } from "../../executor/failures.ts";
import { CpuLimits } from "./cpu-limits.ts";
import { HIGHEST_NICENESS, WatchedTree, type WatchedLeader, type MemoryLimit } from "./watched-tree.ts";

/**
 * Finds the tenants whose guests use much processor time. All guests of such a tenant give way to those of others and
 * to the service itself until the tenant is calm again: they get what is left over. It measures from outside, since a
 * guest may say what it likes. The same measurements enforce the tenants' limits of processor time.
 */
export class CpuFairness {
  readonly #guests = new Map<WatchedLeader, WatchedTree>();
  readonly #tenants = new Map<string, Load>();
  /** Tenants that had to wait for a start, and when they last had to. */
  readonly #waited = new Map<string, number>();
  readonly #calmMs: number;
  readonly #limits: CpuLimits;
  #timer: NodeJS.Timeout | undefined;

  /**
   * `calmMs`: how long a tenant must use little to be calm again; `processorMsPerSecondOf`: how much its guests may
   * use, 0 for no limit.
   */
  constructor({ calmMs = CALM_MS, processorMsPerSecondOf = () => 0 }: CpuFairnessOptions = {}) {
    this.#calmMs = calmMs;
    this.#limits = new CpuLimits(processorMsPerSecondOf, LOOK_MS);
  }

  /** `isNice`: the guest was started with a niceness, which lasts only while its tenant is heavy or waits for starts. */
  add(tenant: string, guest: WatchedLeader, { isNice = false, memory }: WatchOptions = {}): void {
    const watched = new WatchedTree(tenant, guest, isNice, memory);
    this.#guests.set(guest, watched);
    const settle = (): void =>
      this.isHeavy(tenant) ? watched.lowerAll() : this.#letKeepUp(watched, performance.now());
    if (isNice || this.isHeavy(tenant)) {
      settle();
      // A guest that is just starting is not complete yet.
      setTimeout(() => this.#guests.has(guest) && settle(), STARTED_MS).unref();
    }
    if (process.platform === "linux") this.#timer ??= setInterval(() => this.#look(performance.now()), LOOK_MS).unref();
  }

  delete(guest: WatchedLeader): void {
    const watched = this.#guests.get(guest);
    if (watched?.pid !== undefined) this.#limits.ended(watched.tenant, watched.pid);
    this.#guests.delete(guest);
  }

  /**
   * The tenant has reached its limit of starts: until it is calm again, its new guests give way as they did when they
   * started.
   */
  noteWaiting(tenant: string): void {
    this.#waited.set(tenant, performance.now());
  }

  /** The niceness with which the tenant's processes start. */
  nicenessOf(tenant: string): number {
    return this.isHeavy(tenant) ? HIGHEST_NICENESS : 0;
  }

  isHeavy(tenant: string): boolean {
    return this.#tenants.get(tenant)?.isHeavy === true;
  }

  /** The failure of a call whose guest was running when its time was over. */
  timedOut(tenant: string, deadlineMs: number): GuestFailure {
    return timedOut(deadlineMs, this.#limits.whyPaused(tenant));
  }

  close(): void {
    clearInterval(this.#timer);
    for (const tenant of this.#tenants.keys()) this.#limits.forget(tenant);
  }

  #look(now: number): void {
    for (const [tenant, since] of this.#waited) if (now - since > this.#calmMs) this.#waited.delete(tenant);
    for (const load of this.#tenants.values()) Object.assign(load, { share: 0, wanted: 0, usedMs: 0 });
    for (const watched of this.#guests.values()) {
      const { share, wanted, usedMs } = watched.look(now);
      if (share > 0) {
        const load = this.#loadOf(watched.tenant);
        load.share += share;
        load.wanted += wanted;
        load.usedMs += usedMs;
      }
      if (!this.isHeavy(watched.tenant)) this.#letKeepUp(watched, now);
    }
    for (const [tenant, load] of this.#tenants) {
      this.#limits.keep(tenant, load.usedMs, this.#pidsOf(tenant), now);
      if (load.share > CALM_SHARE) load.calmSince = now;
      if (load.share > HEAVY_SHARE || (load.share > CALM_SHARE && load.wanted > WANTED_SHARE)) load.isHeavy = true;
      else if (now - load.calmSince > this.#calmMs) {
        if (load.isHeavy) for (const watched of this.#of(tenant)) watched.raise();
        this.#tenants.delete(tenant);
        this.#limits.forget(tenant);
        continue;
      }
      if (load.isHeavy) for (const watched of this.#of(tenant)) watched.lower();
    }
    if (this.#guests.size > 0 || this.#tenants.size > 0 || this.#waited.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #letKeepUp(watched: WatchedTree, now: number): void {
    if (now - (this.#waited.get(watched.tenant) ?? -Infinity) > this.#calmMs) watched.keepUp();
  }

  #loadOf(tenant: string): Load {
    const known = this.#tenants.get(tenant);
    if (known) return known;
    const load = { isHeavy: false, share: 0, wanted: 0, usedMs: 0, calmSince: 0 };
    this.#tenants.set(tenant, load);
    return load;
  }

  #pidsOf(tenant: string): number[] {
    return Array.from(this.#of(tenant), ({ pid }) => pid).filter((pid) => pid !== undefined);
  }

  *#of(tenant: string): Iterable<WatchedTree> {
    for (const watched of this.#guests.values()) if (watched.tenant === tenant) yield watched;
  }
}

interface WatchOptions {
  readonly isNice?: boolean;
  /** Checked each time the guest is measured, four times a second at most. */
  readonly memory?: MemoryLimit;
}

export interface CpuFairnessOptions {
  readonly calmMs?: number;
  readonly processorMsPerSecondOf?: (tenant: string) => number;
}

/** The guests' use since the last measurement. */
interface Load {
  isHeavy: boolean;
  share: number;
  wanted: number;
  usedMs: number;
  calmSince: number;
}

const LOOK_MS = 250;
/** The time in which a sandbox has usually been set up. */
const STARTED_MS = 30;
/** The share of one processor that all guests of the tenant use together. */
const HEAVY_SHARE = 0.5;
/** Where many are busy, each gets little; so does a guest that has to wait for them but would use little. */
const WANTED_SHARE = 0.9;
const CALM_SHARE = 0.1;
const CALM_MS = 5_000;
