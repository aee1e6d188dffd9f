import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { getPriority, setPriority } from "node:os";

/** The service itself may be started with a niceness; everything here is relative to it. */
export const OWN_NICENESS = getPriority();
export const HIGHEST_NICENESS = 19;

/**
 * Lets a process with a session of its own, and all its threads, give way to others where processor time is short:
 * `niceness` from 0 (no more than the service itself) to 19. Only a preference: returns true if the system accepted it.
 */
export function setNiceness(pid: number, niceness: number): boolean {
  const counted = Math.min(OWN_NICENESS + niceness, HIGHEST_NICENESS);
  try {
    if (process.platform !== "linux") {
      setPriority(pid, counted);
      return true;
    }
    for (const thread of readdirSync(`/proc/${pid}/task`)) setPriority(Number(thread), counted);
  } catch {
    return false;
  }
  return setSessionNiceness(pid, niceness);
}

/**
 * True if neither the process nor any of its threads, where they can be told apart, gives way more than the service.
 */
export function hasOwnNiceness(pid: number): boolean {
  try {
    const threads = process.platform === "linux" ? readdirSync(`/proc/${pid}/task`) : [pid];
    return threads.every((thread) => getPriority(Number(thread)) <= OWN_NICENESS);
  } catch {
    return false;
  }
}

/**
 * As `setNiceness`, as far as `setNiceness(pid, 0)` can undo it: for sessions any user may, for threads only privileged ones.
 */
export function setRevocableNiceness(pid: number, niceness: number): void {
  if (mayRevoke()) setNiceness(pid, niceness);
  else if (process.platform === "linux") setSessionNiceness(pid, niceness);
}

/**
 * Where the kernel distributes time by session (`sched(7)`, autogroups), a niceness counts only within its session, and
 * this sets how far a whole session gives way. Unlike a niceness, it can be undone. False: the system must be told
 * again.
 */
export function setSessionNiceness(pid: number, niceness: number): boolean {
  const file = `/proc/${pid}/autogroup`;
  try {
    // `/autogroup-57 nice 19`
    if (Number(readFileSync(file, "latin1").split(" ").at(-1)) !== niceness) writeFileSync(file, String(niceness));
    return true;
  } catch (error) {
    // It is busy for a tenth of a second after each change; where there is no such file there is nothing to do.
    return (error as NodeJS.ErrnoException).code !== "EAGAIN";
  }
}

/** `CAP_SYS_NICE`, see `capabilities(7)`. */
const SYS_NICE = 1n << 23n;
let isPrivileged: boolean | undefined;

function mayRevoke(): boolean {
  isPrivileged ??= process.platform === "linux" && (capabilities() & SYS_NICE) !== 0n;
  return isPrivileged;
}

function capabilities(): bigint {
  try {
    const status = readFileSync("/proc/self/status", "latin1");
    return BigInt(`0x${/^CapEff:\s*([0-9a-f]+)$/m.exec(status)![1]}`);
  } catch {
    return 0n;
  }
}
