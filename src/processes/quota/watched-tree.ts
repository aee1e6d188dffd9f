import { clock } from "../../lib/clock.ts";
import { INODE_BYTES, sandboxUsage } from "../folder-use.ts";
import { hasOwnNiceness, HIGHEST_NICENESS, setNiceness } from "../niceness.ts";
import {
  mappingMb,
  proportionalMb,
  residentMb,
  socketMb,
  processTree,
  cpuUsages,
  cpuWaitMs,
  wholeProcessTree,
  type ProcessUsage,
} from "../process-tree.ts";

/** The process that started the others of a tree; it may not have been started yet itself. */
export interface WatchedLeader {
  readonly pid: number | undefined;
}

/** The memory that a process and all its descendants may hold together, whatever holds it. */
export interface MemoryLimit {
  readonly megabytes: number;
  /** The most processes it may have. Undefined for one that cannot start any. */
  readonly processes?: number;
  /** Called once. */
  onExceeded(heldMb: number): void;
}

/** Called each time the memory is due to be measured, with the tree's processes, the innermost last. */
export type OnPoll = (pids: readonly number[]) => void;

/** Measured since the last poll, in shares of one CPU. */
export interface TreeUsage {
  readonly share: number;
  /** The share that it would have used without waiting for other processes. */
  readonly demand: number;
  /** The CPU time of that share. */
  readonly usedMs: number;
}

/** One process of a tenant with all its descendants, measured from outside, and their priority. */
export class WatchedTree {
  readonly tenant: string;
  readonly #leader: WatchedLeader;
  #isNice: boolean;
  #pids: readonly number[] = [];
  #lowered = new Set<number>();
  /** The usage of each process at the last poll. */
  #usages: ReadonlyMap<number, ProcessUsage> | undefined;
  /** Undefined if it used little at the last poll: reading it takes time from the processes that serve calls. */
  #waitedMs: number | undefined;
  #memory: MemoryLimit | undefined;
  readonly #onPoll: OnPoll | undefined;
  #polledAt = 0;
  #polls = 0;
  #skips = 0;
  /** The number of polls since its memory was measured. */
  #pollsSinceMemory = 0;

  constructor(tenant: string, leader: WatchedLeader, isNice: boolean, memory?: MemoryLimit, onPoll?: OnPoll) {
    this.tenant = tenant;
    this.#memory = memory;
    this.#onPoll = onPoll;
    this.#leader = leader;
    this.#isNice = isNice;
    this.poll(clock.now());
  }

  get pid(): number | undefined {
    return this.#leader.pid;
  }

  /** A paused tree would use more than it does, so it does not count as calm. */
  poll(now: number): TreeUsage {
    const { pid } = this.#leader;
    this.#pollsSinceMemory++;
    if (pid === undefined || this.#skips-- > 0) return NOTHING;
    this.#skips = 0;
    const processes = this.#memory?.processes;
    if (processes !== undefined) this.#pids = wholeProcessTree(pid, processes + SANDBOX_PROCESSES);
    else if (this.#polls++ % TREE_POLLS < 2) this.#pids = processTree(pid);
    const before = this.#usages;
    const usages = cpuUsages(this.#pids);
    const isPaused = [...usages.values()].some(({ state }) => state === "T");
    const usedMs = before ? cpuMsBetween(before, usages) : 0;
    const isSame = before?.size === usages.size && [...usages.keys()].every((each) => before.has(each));
    const elapsedMs = Math.max(1, now - this.#polledAt);
    const share = usedMs / elapsedMs;
    const demand = share + this.#waitedSince(share) / elapsedMs;
    // A tree that can start nothing cannot hide its CPU time, and takes no memory without using any.
    const isDue = processes !== undefined && this.#pollsSinceMemory >= MEMORY_POLLS;
    if (usedMs > 0 || !isSame || isDue) this.#checkMemory();
    if (usedMs === 0 && isSame && !isPaused) this.#skips = IDLE_POLLS;
    this.#usages = usages;
    this.#polledAt = now;
    return { share: isPaused ? Math.max(share, PAUSED_SHARE) : share, demand: demand, usedMs };
  }

  #checkMemory(): void {
    this.#pollsSinceMemory = 0;
    this.#onPoll?.(this.#pids);
    if (!this.#memory) return;
    // A process that starts no others, and so no program of its choice, cannot have unlimited mappings or files.
    const startsOthers = this.#memory.processes !== undefined;
    const files = startsOthers ? (sandboxUsage(this.#pids)?.files ?? 0) : 0;
    const kernelMb =
      socketMb(this.#pids) + (files * INODE_BYTES) / MEGABYTE + (startsOthers ? mappingMb(this.#pids) : 0);
    if (kernelMb + residentMb(this.#pids) <= this.#memory.megabytes) return;
    const heldMb = kernelMb + proportionalMb(this.#pids);
    if (heldMb <= this.#memory.megabytes) return;
    this.#memory.onExceeded(Math.ceil(heldMb));
    this.#memory = undefined;
  }

  #waitedSince(share: number): number {
    const before = this.#waitedMs;
    this.#waitedMs = share > LITTLE_SHARE ? cpuWaitMs(this.#pids) : undefined;
    return this.#waitedMs === undefined || before === undefined ? 0 : Math.max(0, this.#waitedMs - before);
  }

  lowerAll(): void {
    const { pid } = this.#leader;
    if (pid !== undefined) this.#pids = processTree(pid);
    this.lower();
  }

  lower(): void {
    for (const pid of this.#pids)
      if (!this.#lowered.has(pid) && setNiceness(pid, HIGHEST_NICENESS)) this.#lowered.add(pid);
  }

  /**
   * Restores the priority of a tree that was started at a low one. Retries until the system allows it and no further
   * process is found: a process that was just being started still has the low priority.
   */
  restorePriority(): void {
    if (!this.#isNice) return;
    const { pid } = this.#leader;
    if (pid === undefined) return;
    this.#pids = processTree(pid);
    const isRestored = this.#pids.every(hasOwnNiceness);
    this.#isNice = !this.#pids.map((each) => setNiceness(each, 0)).every(Boolean) || !isRestored;
  }

  /** Raises the priority again, which only a privileged user may do; for others it stays low until the process ends. */
  raise(): void {
    for (const pid of this.#lowered) setNiceness(pid, 0);
    this.#lowered.clear();
  }
}

/**
 * Milliseconds of CPU time. A child that was waited for adds all of its time to its parent's, including the time
 * counted while it ran. The time of one that was not waited for is lost, but not that of its siblings.
 */
function cpuMsBetween(before: ReadonlyMap<number, ProcessUsage>, now: ReadonlyMap<number, ProcessUsage>): number {
  let ownMs = 0;
  let reapedMs = 0;
  for (const [pid, usage] of now) {
    const previous = before.get(pid);
    ownMs += Math.max(0, usage.ownMs - (previous?.ownMs ?? 0));
    reapedMs += Math.max(0, usage.reapedMs - (previous?.reapedMs ?? 0));
  }
  for (const [pid, usage] of before) if (!now.has(pid)) reapedMs -= usage.ownMs + usage.reapedMs;
  return ownMs + Math.max(0, reapedMs);
}

const MEGABYTE = 1024 * 1024;
const NOTHING: TreeUsage = { share: 0, demand: 0, usedMs: 0 };
/** A tree that used nothing is polled again after this many polls. */
const IDLE_POLLS = 3;
/** Polls between memory measurements of a tree that may start others; one also follows an idle period. */
const MEMORY_POLLS = 4;
/** Descendants are searched for in the first polls, and then at this interval. */
const TREE_POLLS = 8;
/** The processes that limit and confine it, and carry its connections, in addition to its own. */
const SANDBOX_PROCESSES = 8;
/** A tenant that uses so little of a CPU is not heavy. */
const LITTLE_SHARE = 0.1;
/** The share of a paused tree: more than that of a calm one. */
const PAUSED_SHARE = 0.2;
