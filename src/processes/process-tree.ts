import { closeSync, openSync, readdirSync, readFileSync, readSync, statSync } from "node:fs";

/** Reads Linux's figures about a process and its descendants. None is reliable: any process may just be ending. */
const PROCESSES_MAX = 64;
/** The unit of times in `/proc/<pid>/stat` (`proc(5)`): Linux reports hundredths of a second on every machine. */
const TICK_MS = 10;

/** The process and its descendants, parents before children; only those started by main threads. */
export function processTree(pid: number): number[] {
  return walkTree(pid, (each) => [String(each)], PROCESSES_MAX);
}

/** The same, including those started by other threads, up to `processesMax`. */
export function wholeProcessTree(pid: number, processesMax: number): number[] {
  return walkTree(pid, (each) => listIfReadable(`/proc/${each}/task`), processesMax);
}

function walkTree(pid: number, listThreads: (pid: number) => readonly string[], processesMax: number): number[] {
  const pids = [pid];
  for (let index = 0; index < pids.length && pids.length < processesMax; index++) {
    const each = pids[index]!;
    for (const thread of listThreads(each)) {
      const children = readIfReadable(`/proc/${each}/task/${thread}/children`).split(" ").filter(Boolean);
      pids.push(...children.map(Number));
    }
  }
  return pids.slice(0, processesMax);
}

/** Milliseconds of CPU time used by these processes and their ended children. */
export function cpuMs(pids: readonly number[]): number {
  return measureCpu(pids).processorMs;
}

/** The same, with the state of each process: `R` is runnable, `T` was stopped (`SIGSTOP`), the others wait. */
export function measureCpu(pids: readonly number[]): { readonly processorMs: number; readonly states: string } {
  let cpuMs = 0;
  let states = "";
  for (const { ownMs, reapedMs, state } of cpuUsages(pids).values()) {
    cpuMs += ownMs + reapedMs;
    states += state;
  }
  return { processorMs: cpuMs, states };
}

/** CPU time of one process. */
export interface ProcessUsage {
  readonly ownMs: number;
  /** The time of ended children that it waited for; the kernel drops that of all others. */
  readonly reapedMs: number;
  readonly state: string;
}

/** The same, for each process that still exists. */
export function cpuUsages(pids: readonly number[]): Map<number, ProcessUsage> {
  const usages = new Map<number, ProcessUsage>();
  for (const pid of pids) {
    const stat = readIfReadable(`/proc/${pid}/stat`);
    if (stat === "") continue;
    // The program's name may contain spaces and parentheses.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const msAt = (index: number): number => (Number(fields[index]) + Number(fields[index + 1])) * TICK_MS;
    usages.set(pid, { ownMs: msAt(11), reapedMs: msAt(13), state: fields[0]! });
  }
  return usages;
}

/** Resident memory and page tables, in megabytes; memory shared between several of them counts for each. */
export function residentMb(pids: readonly number[]): number {
  let kilobytes = 0;
  for (const pid of pids) kilobytes += sumKb(readIfReadable(`/proc/${pid}/status`), /^Vm(?:RSS|PTE):\s*(\d+) kB$/gm);
  return kilobytes / 1_024;
}

function sumKb(status: string, fields: RegExp): number {
  let kilobytes = 0;
  for (const [, figure] of status.matchAll(fields)) kilobytes += Number(figure);
  return kilobytes;
}

/** The same, counting shared memory once, which takes the kernel some time. */
export function proportionalMb(pids: readonly number[]): number {
  let kilobytes = 0;
  for (const pid of pids) {
    const shared = /^Pss:\s*(\d+) kB$/m.exec(readIfReadable(`/proc/${pid}/smaps_rollup`))?.[1];
    kilobytes += Number(shared ?? 0);
    // Not every user may read that of every process. File pages are not memory of the process itself.
    const fields = shared === undefined ? /^(?:Rss(?:Anon|Shmem)|VmPTE):\s*(\d+) kB$/gm : /^VmPTE:\s*(\d+) kB$/gm;
    kilobytes += sumKb(readIfReadable(`/proc/${pid}/status`), fields);
  }
  return kilobytes / 1_024;
}

/**
 * The most memory, in megabytes, that the kernel may need to describe memory mappings, for which it reports no figure;
 * only of processes with unusually many mappings. Bounded by address space: each mapping has at least one page of it.
 */
export function mappingMb(pids: readonly number[]): number {
  let kilobytes = 0;
  for (const pid of pids) {
    const maxKb = sumKb(readIfReadable(`/proc/${pid}/status`), /^VmSize:\s*(\d+) kB$/gm) / MAPPED_KB_PER_KERNEL_KB;
    const hasMany = maxKb > 1_024 && readStart(`/proc/${pid}/maps`, MAPS_BYTES).length === MAPS_BYTES;
    if (hasMany) kilobytes += maxKb;
  }
  return kilobytes / 1_024;
}

/**
 * The number of record locks (`fcntl(2)`) that they hold. The kernel does not limit them, and lists the latest of each
 * CPU first: only the beginning is read, since there may be millions.
 */
export function countRecordLocks(pids: readonly number[]): number {
  const holders = new Set(pids.map(String));
  const lines = readStart("/proc/locks", LOCKS_BYTES).matchAll(/ POSIX +\S+ +\S+ +(\d+)/g);
  return [...lines].filter(([, holder]) => holders.has(holder!)).length;
}

/** About five hundred mappings. */
const MAPS_BYTES = 32 * 1_024;
const LOCKS_BYTES = 256 * 1_024;
/** A mapping of one page, 4 KiB, takes half a kilobyte (measured on Linux 6.18). */
const MAPPED_KB_PER_KERNEL_KB = 8;

/** Milliseconds for which their main threads were runnable but had no CPU (`schedstat`). */
export function cpuWaitMs(pids: readonly number[]): number {
  let ns = 0;
  for (const pid of pids) ns += Number(readIfReadable(`/proc/${pid}/schedstat`).split(" ")[1] ?? 0);
  return ns / 1_000_000;
}

/**
 * The memory, in megabytes, that the kernel may use for sockets of a process's network namespace; it counts to no
 * process. No socket buffer can exceed the system's default (`seccompFilter`). In Berth's own namespace, where a
 * process is until its sandbox is set up, or permanently without one, sockets belong to all processes and are not
 * counted.
 */
export function socketMb(pids: readonly number[]): number {
  const ownNetwork = networkNamespace("self");
  // The innermost process is in the sandbox, whatever started it; processes that have ended are skipped.
  for (const pid of pids.toReversed()) {
    const network = networkNamespace(pid);
    const used = /^sockets: used (\d+)$/m.exec(readIfReadable(`/proc/${pid}/net/sockstat`))?.[1];
    if (network !== ownNetwork && used !== undefined) return (Number(used) * socketBytes()) / (1_024 * 1_024);
  }
  return 0;
}

/** Compares by inode: the table has one per namespace, and `/proc/<pid>/ns` is readable to few users. */
function networkNamespace(pid: number | "self"): number | undefined {
  return statSync(`/proc/${pid}/net/sockstat`, { throwIfNoEntry: false })?.ino;
}

let cachedSocketBytes: number | undefined;

function socketBytes(): number {
  return (cachedSocketBytes ??= Number(readIfReadable("/proc/sys/net/core/wmem_default")) || DEFAULT_SOCKET_BYTES);
}

/** Linux's own default. */
const DEFAULT_SOCKET_BYTES = 212_992;

/** The first bytes of a file of `/proc`, which Linux generates only as far as it is read. */
function readStart(file: string, bytes: number): string {
  const buffer = Buffer.alloc(bytes);
  let length = 0;
  try {
    const descriptor = openSync(file, "r");
    try {
      for (let more = -1; more !== 0 && length < bytes; length += more)
        more = readSync(descriptor, buffer, length, bytes - length, null);
    } finally {
      closeSync(descriptor);
    }
  } catch {
    // The process has ended.
  }
  return buffer.toString("latin1", 0, length);
}

/** The names in a folder; none if it cannot be read. */
export function listIfReadable(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** The content of a file; empty if it cannot be read. */
export function readIfReadable(file: string): string {
  try {
    return readFileSync(file, "latin1");
  } catch {
    return "";
  }
}
