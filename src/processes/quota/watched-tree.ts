import { clock } from "../../lib/clock.ts";
import { INODE_BYTES, sandboxUse } from "../folder-use.ts";
import { hasOwnNiceness, HIGHEST_NICENESS, setNiceness } from "../niceness.ts";
import {
  mappingMbOf,
  proportionalMbOf,
  residentMbOf,
  socketMbOf,
  treeOf,
  usesOf,
  waitedMsOf,
  wholeTreeOf,
  type ProcessUse,
} from "../process-tree.ts";

/** The process that started the others of a tree; it may not have been started yet itself. */
export interface WatchedLeader {
  readonly pid: number | undefined;
}

/** The memory that a process and all its descendants may hold together, however they came to it. */
export interface MemoryLimit {
  readonly megabytes: number;
  /**
   * The most processes it may have. Undefined for one that can start none: all its processes are known from the
   * beginning.
   */
  readonly processes?: number;
  /** Called once. */
  onExceeded(heldMb: number): void;
}

/** Called each time that the memory is due to be measured, with the tree's processes, the innermost of them last. */
export type OnLook = (pids: readonly number[]) => void;

/** Measured since the last look, in shares of one processor. */
export interface Use {
  readonly share: number;
  /** The share that it would have used without waiting for others. */
  readonly wanted: number;
  /** The processor time of that share. */
  readonly usedMs: number;
}

/** One process of a tenant with all its descendants, measured from outside, and how far it gives way. */
export class WatchedTree {
  readonly tenant: string;
  readonly #leader: WatchedLeader;
  #isNice: boolean;
  #pids: readonly number[] = [];
  #lowered = new Set<number>();
  /** The use of each process at the last look. */
  #uses: ReadonlyMap<number, ProcessUse> | undefined;
  /** Undefined where it used little at the last look: reading it costs time of the processes that serve calls. */
  #waitedMs: number | undefined;
  #memory: MemoryLimit | undefined;
  readonly #onLook: OnLook | undefined;
  #lookedAt = 0;
  #looks = 0;
  #rest = 0;
  /** The number of looks since its memory was measured. */
  #memoryUnseen = 0;

  constructor(tenant: string, leader: WatchedLeader, isNice: boolean, memory?: MemoryLimit, onLook?: OnLook) {
    this.tenant = tenant;
    this.#memory = memory;
    this.#onLook = onLook;
    this.#leader = leader;
    this.#isNice = isNice;
    this.look(clock.now());
  }

  get pid(): number | undefined {
    return this.#leader.pid;
  }

  /** A paused tree would use more than it does: it does not count as calm. */
  look(now: number): Use {
    const { pid } = this.#leader;
    this.#memoryUnseen++;
    if (pid === undefined || this.#rest-- > 0) return NOTHING;
    this.#rest = 0;
    const processes = this.#memory?.processes;
    if (processes !== undefined) this.#pids = wholeTreeOf(pid, processes + SANDBOX_PROCESSES);
    else if (this.#looks++ % TREE_LOOKS < 2) this.#pids = treeOf(pid);
    const before = this.#uses;
    const uses = usesOf(this.#pids);
    const isPaused = [...uses.values()].some(({ state }) => state === "T");
    const usedMs = before ? usedBetween(before, uses) : 0;
    const isSame = before?.size === uses.size && [...uses.keys()].every((each) => before.has(each));
    const passedMs = Math.max(1, now - this.#lookedAt);
    const share = usedMs / passedMs;
    const wanted = share + this.#waitedSince(share) / passedMs;
    // A tree that can start nothing cannot hide its processor time, and takes no memory without any.
    const isDue = processes !== undefined && this.#memoryUnseen >= MEMORY_LOOKS;
    if (usedMs > 0 || !isSame || isDue) this.#checkMemory();
    if (usedMs === 0 && isSame && !isPaused) this.#rest = RESTING_LOOKS;
    this.#uses = uses;
    this.#lookedAt = now;
    return { share: isPaused ? Math.max(share, PAUSED_SHARE) : share, wanted, usedMs };
  }

  #checkMemory(): void {
    this.#memoryUnseen = 0;
    this.#onLook?.(this.#pids);
    if (!this.#memory) return;
    // A process that starts no others, and so no program of its own choice, has neither mappings nor files without end.
    const startsOthers = this.#memory.processes !== undefined;
    const files = startsOthers ? (sandboxUse(this.#pids)?.files ?? 0) : 0;
    const kernelMb =
      socketMbOf(this.#pids) + (files * INODE_BYTES) / MEGABYTE + (startsOthers ? mappingMbOf(this.#pids) : 0);
    if (kernelMb + residentMbOf(this.#pids) <= this.#memory.megabytes) return;
    const heldMb = kernelMb + proportionalMbOf(this.#pids);
    if (heldMb <= this.#memory.megabytes) return;
    this.#memory.onExceeded(Math.ceil(heldMb));
    this.#memory = undefined;
  }

  #waitedSince(share: number): number {
    const before = this.#waitedMs;
    this.#waitedMs = share > LITTLE_SHARE ? waitedMsOf(this.#pids) : undefined;
    return this.#waitedMs === undefined || before === undefined ? 0 : Math.max(0, this.#waitedMs - before);
  }

  lowerAll(): void {
    const { pid } = this.#leader;
    if (pid !== undefined) this.#pids = treeOf(pid);
    this.lower();
  }

  lower(): void {
    for (const pid of this.#pids)
      if (!this.#lowered.has(pid) && setNiceness(pid, HIGHEST_NICENESS)) this.#lowered.add(pid);
  }

  /**
   * Undoes the low priority it was started with. Tries again until the system allows it and nothing more is found: a
   * process that was just being started still has the low priority.
   */
  keepUp(): void {
    if (!this.#isNice) return;
    const { pid } = this.#leader;
    if (pid === undefined) return;
    this.#pids = treeOf(pid);
    const isOver = this.#pids.every(hasOwnNiceness);
    this.#isNice = !this.#pids.map((each) => setNiceness(each, 0)).every(Boolean) || !isOver;
  }

  /** Restores its priority, which only a privileged user may do; for others it stays low until the process ends. */
  raise(): void {
    for (const pid of this.#lowered) setNiceness(pid, 0);
    this.#lowered.clear();
  }
}

/**
 * Milliseconds of processor time. A child that was waited for adds all of its time to its parent's, including what was
 * counted while it ran. One that nobody waited for takes its own time along, but not that of its siblings.
 */
function usedBetween(before: ReadonlyMap<number, ProcessUse>, now: ReadonlyMap<number, ProcessUse>): number {
  let ownMs = 0;
  let reapedMs = 0;
  for (const [pid, use] of now) {
    const known = before.get(pid);
    ownMs += Math.max(0, use.ownMs - (known?.ownMs ?? 0));
    reapedMs += Math.max(0, use.reapedMs - (known?.reapedMs ?? 0));
  }
  for (const [pid, use] of before) if (!now.has(pid)) reapedMs -= use.ownMs + use.reapedMs;
  return ownMs + Math.max(0, reapedMs);
}

const MEGABYTE = 1024 * 1024;
const NOTHING: Use = { share: 0, wanted: 0, usedMs: 0 };
/** A tree that used nothing is looked at again after this many looks. */
const RESTING_LOOKS = 3;
/**
 * The memory of a tree that may start others is measured after this many looks, or with the first one after a rest.
 */
const MEMORY_LOOKS = 4;
/** Descendants are searched for in the first looks, and then from time to time. */
const TREE_LOOKS = 8;
/** The processes that limit and confine it, and carry its connections, beside its own. */
const SANDBOX_PROCESSES = 8;
/** A tenant that uses so little of a processor is not heavy. */
const LITTLE_SHARE = 0.1;
/** The share of a paused tree: more than that of a calm one. */
const PAUSED_SHARE = 0.2;
