import { setSessionNiceness } from "./niceness.ts";

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
