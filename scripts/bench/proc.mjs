import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";

/** Readings of processes from `/proc`: CPU time, memory, descendants. */

const ticksPerSecond = Number(execFileSync("getconf", ["CLK_TCK"], { encoding: "utf8" }));

/** User and system time of all threads of one process, its children left out. @param {number} pid */
export function cpuMicros(pid) {
  const fields = statFields(pid);
  return ((Number(fields[11]) + Number(fields[12])) * 1e6) / ticksPerSecond;
}

/** Likewise to the nanosecond, from the scheduler; threads that have ended count nothing. @param {number} pid */
export function exactCpuMicros(pid) {
  const threads = readdirSync(`/proc/${pid}/task`).map((thread) =>
    orZero(() => Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0])),
  );
  return threads.reduce((sum, nanoseconds) => sum + nanoseconds, 0) / 1000;
}

/**
 * How long the main thread has run, and how long it was ready and waited for a processor.
 *
 * @param {number} pid
 */
export function schedulingOf(pid) {
  const [ran, waited] = readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ");
  return { ranMs: Number(ran) / 1e6, waitedMs: Number(waited) / 1e6 };
}

/** As `cpuMicros`, summed over processes; those that have ended count nothing. @param {number[]} pids */
export function cpuMicrosOf(pids) {
  return pids.reduce((sum, pid) => sum + orZero(() => cpuMicros(pid)), 0);
}

/** The time used by this process and the children that it has waited for. */
export function benchCpuMicros() {
  const fields = statFields(process.pid);
  return ((Number(fields[11]) + Number(fields[12]) + Number(fields[13]) + Number(fields[14])) * 1e6) / ticksPerSecond;
}

/** The time used by all processes of the machine; interrupts count for the processes that they interrupted. */
export function machineCpuMicros() {
  const [, user, nice, system, , , interrupts, softInterrupts] = readFileSync("/proc/stat", "utf8").split(/\s+/, 8);
  const ticks = [user, nice, system, interrupts, softInterrupts].reduce((sum, field) => sum + Number(field), 0);
  return (ticks * 1e6) / ticksPerSecond;
}

/**
 * Begins to measure other programs: neither this process, nor started by it, nor the system itself.
 *
 * @returns {() => number} the share of one core that they have used since
 */
export function watchOthers() {
  // A process of ours whose parent has ended is no descendant any more, though it may still be there, as a zombie too.
  const ours = new Set([process.pid]);
  const noteOurs = () => {
    for (const each of descendants(process.pid)) ours.add(each);
  };
  noteOurs();
  const before = usedByOthers(ours);
  const since = performance.now();
  const timer = setInterval(noteOurs, NOTED_EVERY_MS).unref();
  return () => {
    clearInterval(timer);
    noteOurs();
    let used = 0;
    for (const [process, micros] of usedByOthers(ours)) used += micros - (before.get(process) ?? 0);
    return used / ((performance.now() - since) * 1000);
  };
}

/** The kernel thread that starts all other kernel threads. */
const KERNEL = 2;

const NOTED_EVERY_MS = 1_000;

/**
 * Microseconds by id and start time: ids are reused. An ended process counts for the one that waited for it.
 *
 * @param {ReadonlySet<number>} ours
 */
function usedByOthers(ours) {
  /** @type {Map<string, number>} */
  const used = new Map();
  for (const entry of readdirSync("/proc")) {
    const pid = Number(entry);
    if (!Number.isInteger(pid) || pid === KERNEL || ours.has(pid)) continue;
    try {
      const fields = statFields(pid);
      if (Number(fields[1]) === KERNEL) continue;
      // Process 1 waits for orphans, some of which may have been ours.
      const ticks = fields.slice(11, pid === 1 ? 13 : 15).reduce((sum, field) => sum + Number(field), 0);
      used.set(`${pid} ${fields[19]}`, (ticks * 1e6) / ticksPerSecond);
    } catch {} // It has ended.
  }
  return used;
}

/** Resident memory now, in KB. @param {number} pid */
export function memoryKb(pid) {
  return statusKb(pid, "VmRSS");
}

/** The most resident memory that the process ever had, in KB. @param {number} pid */
export function peakMemoryKb(pid) {
  return statusKb(pid, "VmHWM");
}

/** Peaks of several processes, summed; those that have ended count nothing. @param {number[]} pids */
export function peakMemoryKbOf(pids) {
  return pids.reduce((sum, pid) => sum + orZero(() => peakMemoryKb(pid)), 0);
}

/** Every process below this one. @param {number} pid @returns {number[]} */
export function descendants(pid) {
  /** @type {Map<number, number[]>} */
  const children = new Map();
  for (const entry of readdirSync("/proc")) {
    if (!/^\d+$/.test(entry)) continue;
    const parent = orZero(() => Number(statFields(Number(entry))[1]));
    children.set(parent, [...(children.get(parent) ?? []), Number(entry)]);
  }
  const found = [];
  for (const queue = [pid]; queue.length > 0;) {
    const next = children.get(queue.pop()) ?? [];
    found.push(...next);
    queue.push(...next);
  }
  return found;
}

/**
 * Fields of `/proc/PID/stat` after the name: [0] state, [1] parent, [11] user ticks, [12] system ticks, [13] and [14]
 * those of children that were waited for.
 */
function statFields(pid) {
  const text = readFileSync(`/proc/${pid}/stat`, "utf8");
  return text.slice(text.lastIndexOf(")") + 2).split(" ");
}

function statusKb(pid, field) {
  const text = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(new RegExp(`^${field}:\\s*(\\d+) kB$`, "m").exec(text)?.[1] ?? 0);
}

function orZero(read) {
  try {
    return read();
  } catch {
    return 0;
  }
}
