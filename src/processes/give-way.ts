import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { getPriority, setPriority } from "node:os";

/** Who starts the service may have all of it give way; everything here counts from there. */
const OWN_NICENESS = getPriority();
const HIGHEST_NICENESS = 19;

/**
 * Has a process of its own session, with all of its threads, give way to others where there is not enough processor time
 * for all: `niceness` from 0 (no more than the service itself) to 19. A preference: gives whether the system let us state
 * it.
 */
export function giveWay(pid: number, niceness: number): boolean {
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
  return sessionGivesWay(pid, niceness);
}

/** Whether it gives way to nobody by itself more than the service does: neither the process nor, where they can be told apart, any of its threads. */
export function keepsUp(pid: number): boolean {
  try {
    const threads = process.platform === "linux" ? readdirSync(`/proc/${pid}/task`) : [pid];
    return threads.every((thread) => getPriority(Number(thread)) <= OWN_NICENESS);
  } catch {
    return false;
  }
}

/** As `giveWay`, as far as `giveWay(pid, 0)` can take it back: of a session anybody may say so, of threads the privileged. */
export function giveWayForNow(pid: number, niceness: number): void {
  if (mayTakeBack()) giveWay(pid, niceness);
  else if (process.platform === "linux") sessionGivesWay(pid, niceness);
}

/**
 * Where the kernel shares out time by sessions (`sched(7)`, autogroups), a niceness counts within its session alone, and
 * this is how far all of a session gives way. Unlike a niceness it may be taken back. False: the system is to be told again.
 */
export function sessionGivesWay(pid: number, niceness: number): boolean {
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

function mayTakeBack(): boolean {
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
