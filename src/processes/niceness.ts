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
function setSessionNiceness(pid: number, niceness: number): boolean {
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

/**
 * A process that leads a session and does one job after the other, each at low priority for a while: where Linux
 * distributes time by session, everyone else comes first. On a machine that is always busy such a job would hardly ever
 * end, so after that it takes its share. An unprivileged user can set this for a session only, not for a process.
 */
export class SessionNiceness {
  readonly #pid: () => number | undefined;
  readonly #niceness: number;
  readonly #forMs: number;
  readonly #otherwise: number;
  #givesWay = false;
  #insisting: NodeJS.Timeout | undefined;
  #lowering: NodeJS.Timeout | undefined;

  /**
   * `pid` returns undefined where the process does not run; it gives way by `niceness` (0 to 19) for `forMs` of each
   * job, and by `otherwise` from then on.
   */
  constructor(pid: () => number | undefined, { niceness, forMs, otherwise }: SessionNicenessOptions) {
    this.#pid = pid;
    this.#niceness = niceness;
    this.#forMs = forMs;
    this.#otherwise = otherwise;
  }

  /** A job begins. */
  begin(): void {
    this.lower();
    clearTimeout(this.#insisting);
    this.#insisting = setTimeout(() => this.#insist(), this.#forMs);
  }

  /** Must also be called when the process starts after its job began. */
  lower(): void {
    const pid = this.#pid();
    clearTimeout(this.#lowering);
    if (pid === undefined || this.#givesWay) return;
    this.#givesWay = setSessionNiceness(pid, this.#niceness);
    if (!this.#givesWay) this.#lowering = setTimeout(() => this.lower(), AGAIN_MS);
  }

  /** The job is over. The next one begins at low priority. */
  end(): void {
    clearTimeout(this.#lowering);
    clearTimeout(this.#insisting);
  }

  #insist(): void {
    const pid = this.#pid();
    clearTimeout(this.#lowering);
    if (pid !== undefined && this.#givesWay) this.#givesWay = !setSessionNiceness(pid, this.#otherwise);
    if (pid === undefined || this.#givesWay) this.#insisting = setTimeout(() => this.#insist(), AGAIN_MS);
  }
}

interface SessionNicenessOptions {
  readonly niceness: number;
  readonly forMs: number;
  readonly otherwise: number;
}

/** The system may refuse a second change within a tenth of a second. */
const AGAIN_MS = 150;
