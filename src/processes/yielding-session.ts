import { sessionGivesWay } from "./give-way.ts";

/**
 * A process that leads a session and does one job after the other, each of them at leisure for a while: where Linux shares
 * out time by sessions, whoever else has something to do is let in at once. On a machine that is always busy such a job
 * would hardly ever end, so that it takes its part from then on. Unprivileged, that can be said of a session alone, and
 * not of a process.
 */
export class YieldingSession {
  readonly #pid: () => number | undefined;
  readonly #niceness: number;
  readonly #forMs: number;
  readonly #otherwise: number;
  #givesWay = false;
  #insisting: NodeJS.Timeout | undefined;
  #lowering: NodeJS.Timeout | undefined;

  /**
   * `pid` gives undefined where the process does not run; it gives way by `niceness` (0 to 19) for `forMs` of each job, and
   * by `otherwise` from then on.
   */
  constructor(pid: () => number | undefined, { niceness, forMs, otherwise }: Yielding) {
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

  /** To be called, too, when a process runs that did not yet when its job began. */
  lower(): void {
    const pid = this.#pid();
    clearTimeout(this.#lowering);
    if (pid === undefined || this.#givesWay) return;
    this.#givesWay = sessionGivesWay(pid, this.#niceness);
    if (!this.#givesWay) this.#lowering = setTimeout(() => this.lower(), AGAIN_MS);
  }

  /** The job is over. What comes next begins at leisure. */
  end(): void {
    clearTimeout(this.#lowering);
    clearTimeout(this.#insisting);
  }

  #insist(): void {
    const pid = this.#pid();
    clearTimeout(this.#lowering);
    if (pid !== undefined && this.#givesWay) this.#givesWay = !sessionGivesWay(pid, this.#otherwise);
    if (pid === undefined || this.#givesWay) this.#insisting = setTimeout(() => this.#insist(), AGAIN_MS);
  }
}

interface Yielding {
  readonly niceness: number;
  readonly forMs: number;
  readonly otherwise: number;
}

/** The system may refuse to be told twice within a tenth of a second. */
const AGAIN_MS = 150;
