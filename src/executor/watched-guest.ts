import { giveWay, keepsUp } from "../processes/give-way.ts";
import {
  proportionalMbOf,
  residentMbOf,
  socketMbOf,
  treeOf,
  usesOf,
  waitedMsOf,
  wholeTreeOf,
  type ProcessUse,
} from "../processes/process-tree.ts";

/** A process of guest code; it may not have been started yet. */
export interface GuestOfTenant {
  readonly pid: number | undefined;
}

/** What a guest and all that it has started may hold in memory together, however they came to it. */
export interface MemoryRoom {
  readonly megabytes: number;
  /** How many processes it may have; those of a guest that can start none are known from its beginning. */
  readonly processes?: number;
  /** Called once. */
  onExceeded(heldMb: number): void;
}

/** Of one processor, since the look before. */
export interface Use {
  readonly share: number;
  /** The share that it would have used, had it not had to wait for others. */
  readonly wanted: number;
  /** What the share comes to. */
  readonly usedMs: number;
}

/** One guest with all that it has started, as somebody outside of it sees it, and how far it gives way. */
export class WatchedGuest {
  readonly tenant: string;
  readonly #guest: GuestOfTenant;
  #givesWay: boolean;
  #pids: readonly number[] = [];
  #lowered = new Set<number>();
  /** What each process had used at the last look. */
  #uses: ReadonlyMap<number, ProcessUse> | undefined;
  /** Undefined where it used little at the last look: to read it costs those something that are called. */
  #waitedMs: number | undefined;
  #room: MemoryRoom | undefined;
  #lookedAt = 0;
  #looks = 0;
  #rest = 0;
  /** How often it could have been looked at since its memory was. */
  #memoryUnseen = 0;

  constructor(tenant: string, guest: GuestOfTenant, givesWay: boolean, room?: MemoryRoom) {
    this.tenant = tenant;
    this.#room = room;
    this.#guest = guest;
    this.#givesWay = givesWay;
    this.look(performance.now());
  }

  get pid(): number | undefined {
    return this.#guest.pid;
  }

  /** One that is held up would use more than it does: its share is not a calm one's. */
  look(now: number): Use {
    const { pid } = this.#guest;
    this.#memoryUnseen++;
    if (pid === undefined || this.#rest-- > 0) return NOTHING;
    this.#rest = 0;
    const processes = this.#room?.processes;
    if (processes !== undefined) this.#pids = wholeTreeOf(pid, processes + SANDBOX_PROCESSES);
    else if (this.#looks++ % TREE_LOOKS < 2) this.#pids = treeOf(pid);
    const before = this.#uses;
    const uses = usesOf(this.#pids);
    const isStopped = [...uses.values()].some(({ state }) => state === "T");
    const usedMs = before ? usedBetween(before, uses) : 0;
    const isSame = before?.size === uses.size && [...uses.keys()].every((each) => before.has(each));
    const passedMs = Math.max(1, now - this.#lookedAt);
    const share = usedMs / passedMs;
    const wanted = share + this.#waitedSince(share) / passedMs;
    // A guest that can start nothing cannot hide its processor time, and takes no memory without any.
    const isDue = processes !== undefined && this.#memoryUnseen >= MEMORY_LOOKS;
    if (usedMs > 0 || !isSame || isDue) this.#keepToRoom();
    if (usedMs === 0 && isSame && !isStopped) this.#rest = RESTING_LOOKS;
    this.#uses = uses;
    this.#lookedAt = now;
    return { share: isStopped ? Math.max(share, HELD_SHARE) : share, wanted, usedMs };
  }

  #keepToRoom(): void {
    this.#memoryUnseen = 0;
    if (!this.#room) return;
    // Those that can start nothing have no sockets. The innermost is in the sandbox, whatever started it.
    const socketMb = this.#room.processes === undefined ? 0 : socketMbOf(this.#pids.at(-1)!);
    if (socketMb + residentMbOf(this.#pids) <= this.#room.megabytes) return;
    const heldMb = socketMb + proportionalMbOf(this.#pids);
    if (heldMb <= this.#room.megabytes) return;
    this.#room.onExceeded(Math.ceil(heldMb));
    this.#room = undefined;
  }

  #waitedSince(share: number): number {
    const before = this.#waitedMs;
    this.#waitedMs = share > LITTLE_SHARE ? waitedMsOf(this.#pids) : undefined;
    return this.#waitedMs === undefined || before === undefined ? 0 : Math.max(0, this.#waitedMs - before);
  }

  lowerAll(): void {
    const { pid } = this.#guest;
    if (pid !== undefined) this.#pids = treeOf(pid);
    this.lower();
  }

  lower(): void {
    for (const pid of this.#pids) if (!this.#lowered.has(pid) && giveWay(pid, LOWEST_PRIORITY)) this.#lowered.add(pid);
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

/**
 * Milliseconds of processor time. A child that was waited for adds all of its time to its parent's, which includes what
 * was counted while it ran. One that nobody waited for takes its time along, but not that of its siblings.
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

const NOTHING: Use = { share: 0, wanted: 0, usedMs: 0 };
/** One that has used nothing is looked at again after so many looks. */
const RESTING_LOOKS = 3;
/** The memory of one that may start others is looked at after so many looks, or with the first one after a rest. */
const MEMORY_LOOKS = 4;
/** What a guest has started is looked for in the first looks, and then from time to time. */
const TREE_LOOKS = 8;
/** What limits and confines it, beside its own. */
const SANDBOX_PROCESSES = 4;
/** With so little of a processor nobody is heavy. */
const LITTLE_SHARE = 0.1;
/** More than of a calm one. */
const HELD_SHARE = 0.2;
/** The highest niceness that there is. */
export const LOWEST_PRIORITY = 19;
