import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { getPriority } from "node:os";
import { processIdentity } from "../../src/lib/process-identity.ts";
import { cpuUsages, type ProcessUsage } from "../../src/processes/process-tree.ts";
import { until } from "./until.ts";

/** Processes as `proc(5)` shows them; nothing where there is no /proc. */

/** Every descendant of `root`, by id, except the bundler's. */
export function descendants(root = process.pid): number[] {
  const found = [root];
  for (const pid of found) found.push(...childrenOf(pid));
  return found.slice(1).filter((pid) => !commandOf(pid).includes("esbuild"));
}

/** The children of all its threads. */
function childrenOf(pid: number): number[] {
  return foldersIn(`/proc/${pid}/task`).flatMap((thread) =>
    readOr(`/proc/${pid}/task/${thread}/children`).split(" ").filter(Boolean).map(Number),
  );
}

/** Resolves when a descendant has used as much CPU time as an endless loop does, and nothing that starts or loads. */
export async function loopBegan(): Promise<void> {
  const before = cpuUsages(descendants());
  const isLoop = ([pid, { ownMs }]: [number, ProcessUsage]): boolean => ownMs - (before.get(pid)?.ownMs ?? 0) >= 300;
  await until(() => [...cpuUsages(descendants())].some(isLoop), "a process is in an endless loop");
}

/** False also for a zombie: it has no memory and runs nothing. */
export function isAlive(pid: number): boolean {
  const { state = "X" } = statOf(pid) ?? {};
  return state !== "Z" && state !== "X";
}

/** The niceness of a process that gives way by that much more than these tests, whatever theirs is. */
export function givingWayBy(niceness: number): number {
  return Math.min(getPriority() + niceness, 19);
}

/** Undefined if the process is gone. */
export function statOf(pid: number): ProcessStat | undefined {
  const stat = readOr(`/proc/${pid}/stat`);
  if (stat === "") return undefined;
  // The command's name may hold spaces and brackets; everything else follows its last bracket.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [parent, group, session, terminal] = fields.slice(1, 5).map(Number) as [number, number, number, number];
  return { state: fields[0]!, parent, group, session, terminal, niceness: Number(fields[16]) };
}

export interface ProcessStat {
  readonly state: string;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
  /** The device number of its controlling terminal; 0 for none. */
  readonly terminal: number;
  readonly niceness: number;
}

export function commandOf(pid: number): string {
  return readOr(`/proc/${pid}/cmdline`).replaceAll("\0", " ");
}

/** Its present and its peak memory, in megabytes; 0 if the process is gone. */
export function memoryOf(pid: number): { nowMb: number; peakMb: number } {
  const status = readOr(`/proc/${pid}/status`);
  const megabytes = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1] ?? 0) / 1024;
  return { nowMb: megabytes("VmRSS"), peakMb: megabytes("VmHWM") };
}

/** Processes whose command line or environment holds the text, by which tests mark the ones they start. */
export function processesWith(mark: string): number[] {
  const holds = (pid: number): boolean => {
    const command = commandOf(pid);
    if (command.includes(mark)) return true;
    // Kernel threads have neither.
    return command !== "" && readOr(`/proc/${pid}/environ`).includes(mark);
  };
  return processes().filter((pid) => pid !== process.pid && holds(pid));
}

/** All of the machine, except those that other users hide. */
export function processes(): number[] {
  return process.platform === "linux" ? foldersIn("/proc").map(Number) : [];
}

/** The folders with numeric names; none where there is no such folder. */
function foldersIn(folder: string): string[] {
  try {
    return readdirSync(folder).filter((name) => /^\d+$/.test(name));
  } catch {
    return [];
  }
}

function readOr(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

/** The identity of a process that was killed. */
export async function killedProcess(): Promise<string> {
  const child = spawn("sleep", ["600"], { stdio: "ignore" });
  const identity = processIdentity(child.pid);
  child.kill("SIGKILL");
  await once(child, "exit");
  return identity!;
}
