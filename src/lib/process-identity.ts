import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";

/**
 * Identifies a running process until the next boot, also after its PID was reused. Undefined outside of Linux, and where
 * `/proc` does not belong to this process's own PID namespace.
 */
export function processIdentity(pid = process.pid): string | undefined {
  try {
    if (Number(readlinkSync("/proc/self")) !== process.pid) return undefined;
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
    const machine = [boot, hostname(), readlinkSync("/proc/self/ns/pid")].join(" ");
    return `${machine} ${pid} ${readStat(pid)!.startedAt}`;
  } catch {
    return undefined;
  }
}

/** True only when the process has certainly ended: on another host or in another PID namespace it cannot be seen. */
export function hasEnded(identity: unknown): boolean {
  const own = processIdentity();
  if (typeof identity !== "string" || own === undefined) return false;
  const [, machine, pid, startedAt] = /^(.+) (\d+) (\d+)$/.exec(identity) ?? [];
  if (machine === undefined || !own.startsWith(`${machine} `)) return false;
  try {
    // Unlike /proc, which may hide processes of other users, this tells a missing process from one that is not ours.
    process.kill(Number(pid), 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return true;
  }
  const stat = readStat(Number(pid));
  return stat !== undefined && (stat.startedAt !== startedAt || stat.state === "Z" || stat.state === "X");
}

/** `proc(5)`: fields 3 and 22 of the process's status; undefined where it cannot be read. */
function readStat(pid: number): { readonly state: string; readonly startedAt: string } | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    // The command's name may contain spaces and brackets.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return { state: fields[0]!, startedAt: fields[19]! };
  } catch {
    return undefined;
  }
}
