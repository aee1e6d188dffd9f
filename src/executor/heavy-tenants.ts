import { giveWay, keepsUp } from "../give-way.ts";
import { treeOf, useOf } from "../process-tree.ts";

/** A process of guest code; it may not have been started yet. */
export interface GuestOfTenant {
  readonly pid: number | undefined;
}

/**
 * Which tenants' guests use much processor time. All guests of such a tenant give way to those of others and to the
 * service itself until the tenant is calm again: they get what is left over, which is all where nobody else wants any.
 * It looks on from outside, for a guest may say what it likes.
 */
export class HeavyTenants {
  readonly #guests = new Map<GuestOfTenant, Watched>();
  readonly #tenants = new Map<string, { isHeavy: boolean; share: number; calmSince: number }>();
  /** Those that had to wait for a start, and when it was that they last had. */
  readonly #hurried = new Map<string, number>();
  readonly #calmMs: number;
  #timer: NodeJS.Timeout | undefined;

  /** `calmMs`: how long a tenant has to use little until it is calm again. */
  constructor(calmMs = CALM_MS) {
    this.#calmMs = calmMs;
  }

  /** `givesWay`: it was started so, which is to last only while its tenant is heavy or in a hurry. */
  add(tenant: string, guest: GuestOfTenant, givesWay = false): void {
    const watched = new Watched(tenant, guest, givesWay);
    this.#guests.set(guest, watched);
    const settle = (): void =>
      this.isHeavy(tenant) ? watched.lowerAll() : this.#letKeepUp(watched, performance.now());
    if (givesWay || this.isHeavy(tenant)) {
      settle();
      // What is only being started is not all there yet.
      setTimeout(() => this.#guests.has(guest) && settle(), STARTED_MS).unref();
    }
    if (process.platform === "linux") this.#timer ??= setInterval(() => this.#look(performance.now()), LOOK_MS).unref();
  }

  delete(guest: GuestOfTenant): void {
    this.#guests.delete(guest);
  }

  /** The tenant starts as many as it may: until it is calm again, its new ones give way as they did when they started. */
  noteHurry(tenant: string): void {
    this.#hurried.set(tenant, performance.now());
  }

  /** By how much what is started for the tenant is to give way from its beginning on. */
  nicenessOf(tenant: string): number {
    return this.isHeavy(tenant) ? LOWEST : 0;
  }

  isHeavy(tenant: string): boolean {
    return this.#tenants.get(tenant)?.isHeavy === true;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #look(now: number): void {
    for (const [tenant, since] of this.#hurried) if (now - since > this.#calmMs) this.#hurried.delete(tenant);
    for (const load of this.#tenants.values()) load.share = 0;
    for (const watched of this.#guests.values()) {
      const share = watched.look(now);
      if (share > 0) this.#loadOf(watched.tenant).share += share;
      if (!this.isHeavy(watched.tenant)) this.#letKeepUp(watched, now);
    }
    for (const [tenant, load] of this.#tenants) {
      if (load.share > CALM_SHARE) load.calmSince = now;
      if (load.share > HEAVY_SHARE) load.isHeavy = true;
      else if (now - load.calmSince > this.#calmMs) {
        if (load.isHeavy) for (const watched of this.#of(tenant)) watched.raise();
        this.#tenants.delete(tenant);
        continue;
      }
      if (load.isHeavy) for (const watched of this.#of(tenant)) watched.lower();
    }
    if (this.#guests.size > 0 || this.#tenants.size > 0 || this.#hurried.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #letKeepUp(watched: Watched, now: number): void {
    if (now - (this.#hurried.get(watched.tenant) ?? -Infinity) > this.#calmMs) watched.keepUp();
  }

  #loadOf(tenant: string) {
    const known = this.#tenants.get(tenant);
    if (known) return known;
    const load = { isHeavy: false, share: 0, calmSince: 0 };
    this.#tenants.set(tenant, load);
    return load;
  }

  *#of(tenant: string): Iterable<Watched> {
    for (const watched of this.#guests.values()) if (watched.tenant === tenant) yield watched;
  }
}

const LOOK_MS = 250;
/** After which a sandbox has usually been set up. */
const STARTED_MS = 30;
/** One that has used nothing is looked at again after so many looks. */
const RESTING_LOOKS = 3;
/** What a guest has started is looked for in the first looks, and then from time to time. */
const TREE_LOOKS = 8;
/** Of one processor, all guests of the tenant together. */
const HEAVY_SHARE = 0.5;
const CALM_SHARE = 0.1;
/** More than of a calm one. */
const WANTED_SHARE = 0.2;
const CALM_MS = 5_000;
const LOWEST = 19;

class Watched {
  readonly tenant: string;
  readonly #guest: GuestOfTenant;
  #givesWay: boolean;
  #pids: readonly number[] = [];
  #lowered = new Set<number>();
  #usedMs = -1;
  #lookedAt = 0;
  #looks = 0;
  #rest = 0;

  constructor(tenant: string, guest: GuestOfTenant, givesWay: boolean) {
    this.tenant = tenant;
    this.#guest = guest;
    this.#givesWay = givesWay;
    this.look(performance.now());
  }

  /** Of one processor, since the look before. One that is held up would use more than it does, and is not calm. */
  look(now: number): number {
    const { pid } = this.#guest;
    if (pid === undefined || this.#rest-- > 0) return 0;
    this.#rest = 0;
    if (this.#looks++ % TREE_LOOKS < 2) this.#pids = treeOf(pid);
    const { processorMs: usedMs, states } = useOf(this.#pids);
    const isStopped = states.includes("T");
    const before = this.#usedMs;
    const share = before < 0 ? 0 : Math.max(0, usedMs - before) / (now - this.#lookedAt);
    this.#usedMs = usedMs;
    this.#lookedAt = now;
    if (before === usedMs && !isStopped) this.#rest = RESTING_LOOKS;
    return isStopped ? Math.max(share, WANTED_SHARE) : share;
  }

  lowerAll(): void {
    const { pid } = this.#guest;
    if (pid !== undefined) this.#pids = treeOf(pid);
    this.lower();
  }

  lower(): void {
    for (const pid of this.#pids) if (!this.#lowered.has(pid) && giveWay(pid, LOWEST)) this.#lowered.add(pid);
  }

  /**
   * Takes back what it was started with; tried again until the system lets us, and until nothing is found any more: what
   * was just being started meanwhile has it still.
   */
  keepUp(): void {
    if (!this.#givesWay) return;
    const { pid } = this.#guest;
    if (pid === undefined) return;
    this.#pids = treeOf(pid);
    const isOver = this.#pids.every(keepsUp);
    this.#givesWay = !this.#pids.map((each) => giveWay(each, 0)).every(Boolean) || !isOver;
  }

  /** Only who is privileged may do that; for everybody else they stay as they are until they end. */
  raise(): void {
    for (const pid of this.#lowered) giveWay(pid, 0);
    this.#lowered.clear();
  }
}
