import { readdirSync, writeFileSync } from "node:fs";
import { setPriority } from "node:os";

/**
 * Has a process of its own session, with all of its threads, give way to others where there is not enough processor time
 * for all: `niceness` from 0 (not at all) to 19. A preference: gives whether the system let us state it.
 */
export function giveWay(pid: number, niceness: number): boolean {
  try {
    if (process.platform !== "linux") {
      setPriority(pid, niceness);
      return true;
    }
    for (const thread of readdirSync(`/proc/${pid}/task`)) setPriority(Number(thread), niceness);
  } catch {
    return false;
  }
  return sessionGivesWay(pid, niceness);
}

/**
 * Where the kernel shares out time by sessions (`sched(7)`, autogroups), a niceness counts within its session alone, and
 * this is how far all of a session gives way. Unlike a niceness it may be taken back. False: the system is to be told again.
 */
export function sessionGivesWay(pid: number, niceness: number): boolean {
  try {
    writeFileSync(`/proc/${pid}/autogroup`, String(niceness));
    return true;
  } catch (error) {
    // It is busy for a tenth of a second after each change; where there is no such file there is nothing to do.
    return (error as NodeJS.ErrnoException).code !== "EAGAIN";
  }
}
