import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { getPriority, setPriority } from "node:os";

/** The service itself may be started with a niceness; all others are relative to it. */
export const OWN_NICENESS = getPriority();
export const HIGHEST_NICENESS = 19;

/**
 * Lowers the CPU priority of a process that leads a session, and of all its threads: `niceness` from 0 (the priority of
 * the service itself) to 19. Best effort: returns true if the system accepted it.
 */
export function setNiceness(pid: number, niceness: number): boolean {
  const absolute = Math.min(OWN_NICENESS + niceness, HIGHEST_NICENESS);
  try {
    if (process.platform !== "linux") {
      setPriority(pid, absolute);
      return true;
    }
    for (const thread of readdirSync(`/proc/${pid}/task`)) setPriority(Number(thread), absolute);
  } catch {
    return false;
  }
  return setSessionNiceness(pid, niceness);
}

/** True if neither the process nor any of its threads has a lower priority than the service. */
export function hasOwnNiceness(pid: number): boolean {
  try {
    const threads = process.platform === "linux" ? readdirSync(`/proc/${pid}/task`) : [pid];
    return threads.every((thread) => getPriority(Number(thread)) <= OWN_NICENESS);
  } catch {
    return false;
  }
}

/**
 * Like `setNiceness`, but only as far as `setNiceness(pid, 0)` can undo it: any user can for sessions, only privileged
 * ones for threads.
 */
export function setRevocableNiceness(pid: number, niceness: number): void {
  if (canRaisePriority()) setNiceness(pid, niceness);
  else if (process.platform === "linux") setSessionNiceness(pid, niceness);
}

/**
 * Where the kernel distributes CPU time by session (`sched(7)`, autogroups), a niceness counts only within its session,
 * and this sets the priority of the whole session. Unlike a niceness, it can be undone. False if it has to be repeated.
 */
function setSessionNiceness(pid: number, niceness: number): boolean {
  const file = `/proc/${pid}/autogroup`;
  try {
    // `/autogroup-57 nice 19`
    if (Number(readFileSync(file, "latin1").split(" ").at(-1)) !== niceness) writeFileSync(file, String(niceness));
    return true;
  } catch (error) {
    // It is busy for 100 ms after each change; without such a file there is nothing to do.
    return (error as NodeJS.ErrnoException).code !== "EAGAIN";
  }
}

/** `CAP_SYS_NICE`, see `capabilities(7)`. */
const SYS_NICE = 1n << 23n;
let isPrivileged: boolean | undefined;

function canRaisePriority(): boolean {
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

/**
 * Priority of a process that leads a session and runs one job after the other, each at low priority at first: where
 * Linux distributes CPU time by session, all other sessions come first. On a busy machine such a job would hardly ever
 * end, so its priority is raised after a while. Unprivileged users can do this for a session only, not for a process.
 */
export class SessionNiceness {
  readonly #pid: () => number | undefined;
  readonly #niceness: number;
  readonly #forMs: number;
  readonly #laterNiceness: number;
  #isLowered = false;
  #raiseTimer: NodeJS.Timeout | undefined;
  #lowerTimer: NodeJS.Timeout | undefined;

  /**
   * `pid` returns undefined if the process is not running. Its niceness is `niceness` (0 to 19) for the first `forMs`
   * of each job, and `otherwise` after that.
   */
  constructor(pid: () => number | undefined, { niceness, forMs, otherwise: laterNiceness }: SessionNicenessOptions) {
    this.#pid = pid;
    this.#niceness = niceness;
    this.#forMs = forMs;
    this.#laterNiceness = laterNiceness;
  }

  /** A job begins. */
  begin(): void {
    this.lower();
    clearTimeout(this.#raiseTimer);
    this.#raiseTimer = setTimeout(() => this.#raise(), this.#forMs);
  }

  /** Must also be called if the process starts after its job began. */
  lower(): void {
    const pid = this.#pid();
    clearTimeout(this.#lowerTimer);
    if (pid === undefined || this.#isLowered) return;
    this.#isLowered = setSessionNiceness(pid, this.#niceness);
    if (!this.#isLowered) this.#lowerTimer = setTimeout(() => this.lower(), RETRY_MS);
  }

  /** Ends the job. The next one begins at low priority. */
  end(): void {
    clearTimeout(this.#lowerTimer);
    clearTimeout(this.#raiseTimer);
  }

  #raise(): void {
    const pid = this.#pid();
    clearTimeout(this.#lowerTimer);
    if (pid !== undefined && this.#isLowered) this.#isLowered = !setSessionNiceness(pid, this.#laterNiceness);
    if (pid === undefined || this.#isLowered) this.#raiseTimer = setTimeout(() => this.#raise(), RETRY_MS);
  }
}

interface SessionNicenessOptions {
  readonly niceness: number;
  readonly forMs: number;
  readonly otherwise: number;
}

/** The system may refuse a second change within 100 ms. */
const RETRY_MS = 150;
