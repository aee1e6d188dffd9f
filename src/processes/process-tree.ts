import { closeSync, openSync, readdirSync, readFileSync, readSync, statSync } from "node:fs";

/** Reads Linux's figures about a process and its descendants. None is certain: any process may just end. */
const PROCESSES_MAX = 64;
/** The unit of times in `/proc/<pid>/stat` (`proc(5)`): Linux shows hundredths of a second on every machine. */
const TICK_MS = 10;

/** The process and its descendants, each parent before its children; only those started by first threads. */
export function treeOf(pid: number): number[] {
  return treeBy(pid, (each) => [String(each)], PROCESSES_MAX);
}

/** Likewise, including those that any thread has started, up to `processesMax`. */
export function wholeTreeOf(pid: number, processesMax: number): number[] {
  return treeBy(pid, (each) => listOr(`/proc/${each}/task`), processesMax);
}

function treeBy(pid: number, threadsOf: (pid: number) => readonly string[], processesMax: number): number[] {
  const found = [pid];
  for (let index = 0; index < found.length && found.length < processesMax; index++) {
    const each = found[index]!;
    for (const thread of threadsOf(each)) {
      const children = readOr(`/proc/${each}/task/${thread}/children`).split(" ").filter(Boolean);
      found.push(...children.map(Number));
    }
  }
  return found.slice(0, processesMax);
}

/** Milliseconds of processor time that they and their ended children have used. */
export function processorMsOf(pids: readonly number[]): number {
  return useOf(pids).processorMs;
}

/** Likewise, with the state of each: `R` is ready to run, `T` was stopped (`SIGSTOP`), others wait. */
export function useOf(pids: readonly number[]): { readonly processorMs: number; readonly states: string } {
  let processorMs = 0;
  let states = "";
  for (const { ownMs, reapedMs, state } of usesOf(pids).values()) {
    processorMs += ownMs + reapedMs;
    states += state;
  }
  return { processorMs, states };
}

/** Processor time of one process. */
export interface ProcessUse {
  readonly ownMs: number;
  /** The time of its ended children, as far as it waited for them: the kernel drops that of all others. */
  readonly reapedMs: number;
  readonly state: string;
}

/** Likewise, for each process that still exists. */
export function usesOf(pids: readonly number[]): Map<number, ProcessUse> {
  const uses = new Map<number, ProcessUse>();
  for (const pid of pids) {
    const stat = readOr(`/proc/${pid}/stat`);
    if (stat === "") continue;
    // The program's name may hold spaces and brackets.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const msAt = (index: number): number => (Number(fields[index]) + Number(fields[index + 1])) * TICK_MS;
    uses.set(pid, { ownMs: msAt(11), reapedMs: msAt(13), state: fields[0]! });
  }
  return uses;
}

/** Their resident memory and page tables, in megabytes; memory that several of them share is counted for each. */
export function residentMbOf(pids: readonly number[]): number {
  let kilobytes = 0;
  for (const pid of pids) kilobytes += sumKb(readOr(`/proc/${pid}/status`), /^Vm(?:RSS|PTE):\s*(\d+) kB$/gm);
  return kilobytes / 1_024;
}

function sumKb(status: string, fields: RegExp): number {
  let kilobytes = 0;
  for (const [, figure] of status.matchAll(fields)) kilobytes += Number(figure);
  return kilobytes;
}

/** Likewise, counting shared memory once, which takes the kernel some time. */
export function proportionalMbOf(pids: readonly number[]): number {
  let kilobytes = 0;
  for (const pid of pids) {
    const shared = /^Pss:\s*(\d+) kB$/m.exec(readOr(`/proc/${pid}/smaps_rollup`))?.[1];
    kilobytes += Number(shared ?? 0);
    // Not every user may read that of every process. File pages are not memory of its own.
    const fields = shared === undefined ? /^(?:Rss(?:Anon|Shmem)|VmPTE):\s*(\d+) kB$/gm : /^VmPTE:\s*(\d+) kB$/gm;
    kilobytes += sumKb(readOr(`/proc/${pid}/status`), fields);
  }
  return kilobytes / 1_024;
}

/**
 * The most memory, in megabytes, that the kernel may need to describe their mappings, of which it shows no figure; only
 * of processes with more mappings than programs have. Address space limits them: each has a page of it at least.
 */
export function mappingMbOf(pids: readonly number[]): number {
  let kilobytes = 0;
  for (const pid of pids) {
    const mostKb = sumKb(readOr(`/proc/${pid}/status`), /^VmSize:\s*(\d+) kB$/gm) / MAPPED_KB_PER_KB;
    const isMuch = mostKb > 1_024 && beginning(`/proc/${pid}/maps`, MAPS_BYTES).length === MAPS_BYTES;
    if (isMuch) kilobytes += mostKb;
  }
  return kilobytes / 1_024;
}

/**
 * The number of record locks (`fcntl(2)`) that they hold. The kernel counts them for nobody, and lists the latest of each
 * processor first: no more than the beginning is read, since they may be millions.
 */
export function recordLocksOf(pids: readonly number[]): number {
  const holders = new Set(pids.map(String));
  const lines = beginning("/proc/locks", LOCKS_BYTES).matchAll(/ POSIX +\S+ +\S+ +(\d+)/g);
  return [...lines].filter(([, holder]) => holders.has(holder!)).length;
}

/** About five hundred mappings. */
const MAPS_BYTES = 32 * 1_024;
const LOCKS_BYTES = 256 * 1_024;
/** A mapping of one page, 4 KiB, takes half a kilobyte (measured on Linux 6.18). */
const MAPPED_KB_PER_KB = 8;

/** Milliseconds for which their first threads were ready to run and had no processor (`schedstat`). */
export function waitedMsOf(pids: readonly number[]): number {
  let ns = 0;
  for (const pid of pids) ns += Number(readOr(`/proc/${pid}/schedstat`).split(" ")[1] ?? 0);
  return ns / 1_000_000;
}

/**
 * The memory, in megabytes, that the kernel may keep for sockets of a process's network namespace: it counts to no
 * process. None of them may be longer than the system's default (`seccompFilter`). In Berth's own namespace, where a
 * process is until its sandbox is made, or for good without one, the sockets are everybody's: nothing is counted.
 */
export function socketMbOf(pids: readonly number[]): number {
  const own = networkOf("self");
  // The innermost is in the sandbox, whatever started it; one that has ended tells nothing.
  for (const pid of pids.toReversed()) {
    const network = networkOf(pid);
    const used = /^sockets: used (\d+)$/m.exec(readOr(`/proc/${pid}/net/sockstat`))?.[1];
    if (network !== own && used !== undefined) return (Number(used) * socketBytes()) / (1_024 * 1_024);
  }
  return 0;
}

/** Compares by inode: its table has another one in each namespace, and few may read `/proc/<pid>/ns`. */
function networkOf(pid: number | "self"): number | undefined {
  return statSync(`/proc/${pid}/net/sockstat`, { throwIfNoEntry: false })?.ino;
}

let knownSocketBytes: number | undefined;

function socketBytes(): number {
  return (knownSocketBytes ??= Number(readOr("/proc/sys/net/core/wmem_default")) || USUAL_SOCKET_BYTES);
}

/** Linux's own default. */
const USUAL_SOCKET_BYTES = 212_992;

/** The first bytes of a file of `/proc`, which Linux makes as far as it is read. */
function beginning(file: string, bytes: number): string {
  const read = Buffer.alloc(bytes);
  let length = 0;
  try {
    const descriptor = openSync(file, "r");
    try {
      for (let more = -1; more !== 0 && length < bytes; length += more)
        more = readSync(descriptor, read, length, bytes - length, null);
    } finally {
      closeSync(descriptor);
    }
  } catch {
    // The process ended.
  }
  return read.toString("latin1", 0, length);
}

/** The names in a folder; none where it cannot be read. */
export function listOr(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** The text of a file; empty where it cannot be read. */
export function readOr(file: string): string {
  try {
    return readFileSync(file, "latin1");
  } catch {
    return "";
  }
}
