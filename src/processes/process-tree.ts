import { readdirSync, readFileSync, statSync } from "node:fs";

/** What Linux tells of a process and of all that it has started. Nothing of it is certain: any of them may just end. */
const PROCESSES_MAX = 64;
/** The unit of times in `/proc/<pid>/stat` (`proc(5)`): Linux shows hundredths of a second on every machine. */
const TICK_MS = 10;

/** The process and its descendants, whoever started what first; those of each one's first thread alone. */
export function treeOf(pid: number): number[] {
  return treeBy(pid, (each) => [String(each)], PROCESSES_MAX);
}

/** The same with those that any thread has started, and so many of them as there may be. */
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

/** Milliseconds of processor time that they have used, and those that they have started and that have ended. */
export function processorMsOf(pids: readonly number[]): number {
  return useOf(pids).processorMs;
}

/** The same, and the state of each: `R` would run, `T` was stopped (`SIGSTOP`), others wait for something. */
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
  /** Time of its children that ended, as far as it waited for them: the kernel drops that of all others. */
  readonly reapedMs: number;
  readonly state: string;
}

/** The same for each process that is still there. */
export function usesOf(pids: readonly number[]): Map<number, ProcessUse> {
  const uses = new Map<number, ProcessUse>();
  for (const pid of pids) {
    const stat = readOr(`/proc/${pid}/stat`);
    if (stat === "") continue;
    // The name of the program may hold spaces and brackets.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const msAt = (index: number): number => (Number(fields[index]) + Number(fields[index + 1])) * TICK_MS;
    uses.set(pid, { ownMs: msAt(11), reapedMs: msAt(13), state: fields[0]! });
  }
  return uses;
}

/** What they have in memory, in megabytes; what several of them share is counted for each. */
export function residentMbOf(pids: readonly number[]): number {
  let kilobytes = 0;
  for (const pid of pids) kilobytes += Number(/^VmRSS:\s*(\d+) kB$/m.exec(readOr(`/proc/${pid}/status`))?.[1] ?? 0);
  return kilobytes / 1_024;
}

/** The same with what is shared counted once: it takes the kernel some time to find out. */
export function proportionalMbOf(pids: readonly number[]): number {
  let kilobytes = 0;
  for (const pid of pids) {
    const shared = /^Pss:\s*(\d+) kB$/m.exec(readOr(`/proc/${pid}/smaps_rollup`))?.[1];
    if (shared !== undefined) kilobytes += Number(shared);
    // Not everybody may read that of everybody. Files that are read are no memory of its own.
    else
      for (const [, own] of readOr(`/proc/${pid}/status`).matchAll(/^Rss(?:Anon|Shmem):\s*(\d+) kB$/gm))
        kilobytes += Number(own);
  }
  return kilobytes / 1_024;
}

/** Milliseconds for which they were ready to run and had no processor (`schedstat`), as far as each one's first thread goes. */
export function waitedMsOf(pids: readonly number[]): number {
  let ns = 0;
  for (const pid of pids) ns += Number(readOr(`/proc/${pid}/schedstat`).split(" ")[1] ?? 0);
  return ns / 1_000_000;
}

/**
 * What the kernel may keep for sockets of the network namespace that a process is in, in megabytes: it counts to no
 * process. None of them may be longer than the system gives each (`seccompFilter`). In Berth's own namespace, where a
 * process is until its sandbox is made, or for good without one, they are Berth's and everybody's: nothing is counted.
 */
export function socketMbOf(pid: number): number {
  if (networkOf(pid) === networkOf("self")) return 0;
  const used = Number(/^sockets: used (\d+)$/m.exec(readOr(`/proc/${pid}/net/sockstat`))?.[1] ?? 0);
  return (used * socketBytes()) / (1_024 * 1_024);
}

/** Its table has another inode in each namespace; `/proc/<pid>/ns` may be read by few. */
function networkOf(pid: number | "self"): number | undefined {
  return statSync(`/proc/${pid}/net/sockstat`, { throwIfNoEntry: false })?.ino;
}

let knownSocketBytes: number | undefined;

function socketBytes(): number {
  return (knownSocketBytes ??= Number(readOr("/proc/sys/net/core/wmem_default")) || USUAL_SOCKET_BYTES);
}

/** Linux's own default. */
const USUAL_SOCKET_BYTES = 212_992;

function listOr(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function readOr(file: string): string {
  try {
    return readFileSync(file, "latin1");
  } catch {
    return "";
  }
}
