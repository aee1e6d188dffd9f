import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";

/**
 * Identifies a running process until the next boot, even if its PID is reused. Undefined outside of Linux, and if
 * `/proc` does not belong to this process's own PID namespace.
 */
export function processIdentity(pid = process.pid): string | undefined {
  try {
    if (Number(readlinkSync("/proc/self")) !== process.pid) return undefined;
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
    return [boot, hostname(), readlinkSync("/proc/self/ns/pid"), pid, startTime(pid)].join(" ");
  } catch {
    return undefined;
  }
}

/** True only if the process has certainly ended: on another host or in another PID namespace it cannot be observed. */
export function hasEnded(identity: unknown): boolean {
  const own = processIdentity()?.split(" ");
  const [boot, host, namespace, pid, startedAt] = String(identity).split(" ");
  if (!own || boot !== own[0] || host !== own[1] || namespace !== own[2] || startedAt === undefined) return false;
  try {
    // Unlike /proc, which may hide processes of other users, this distinguishes a missing process from one of another
    // user.
    process.kill(Number(pid), 0);
    return startTime(Number(pid)) !== startedAt;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
}

/** `proc(5)`: field 22 of the process's status; undefined for a zombie. Throws if it cannot be read. */
function startTime(pid: number): string | undefined {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  // The command's name may contain spaces and parentheses.
  const [state, ...fields] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return state === "Z" || state === "X" ? undefined : fields[18];
}
