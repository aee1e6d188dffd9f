import { BerthError } from "../lib/errors.ts";
import type { UpstreamConnection } from "./connection.ts";

type Asked = Pick<UpstreamConnection, "heard" | "isThere">;

/**
 * Detects that an upstream has become silent: a stopped process, or one in an endless loop, still runs. It is pinged
 * once a call was given up and nothing has arrived since a request was made; any message proves that it is there,
 * however long a call takes.
 */
export class Liveness {
  readonly #connection: Asked;
  readonly #pingMs: number;
  /** The value of `heard` at the start of the longest waiting request; NONE while none waits. */
  #heard = NONE;
  #since = 0;
  #isAsked = false;
  readonly #calls = new Set<string>();

  constructor(connection: Asked, pingMs: number) {
    this.#connection = connection;
    this.#pingMs = pingMs;
  }

  /** The start of its silence, though a request waits: on the clock of `performance.now()`. */
  get since(): number {
    return this.#since;
  }

  /** The calls that were given up since then. */
  get calls(): ReadonlySet<string> {
    return this.#calls;
  }

  /** A request begins. */
  began(): void {
    const { heard } = this.#connection;
    if (heard === this.#heard) return;
    this.#heard = heard;
    this.#since = performance.now();
    this.#calls.clear();
  }

  /** A request has ended, other than by being given up. */
  ended(): void {
    this.#heard = NONE;
  }

  /** A request has failed. Resolves with true, once only, if the server turns out to be silent. */
  async isEndless(error: unknown, call: string | undefined): Promise<boolean> {
    if (!isGivenUp(error)) this.ended();
    else if (call !== undefined) this.#calls.add(call);
    if (this.#isAsked || !this.#lasts()) return false;
    this.#isAsked = true;
    if (!(await this.#connection.isThere(this.#pingMs)) && this.#lasts()) return true;
    this.#isAsked = false;
    return false;
  }

  #lasts(): boolean {
    return this.#connection.heard === this.#heard && performance.now() - this.#since >= this.#pingMs;
  }
}

const NONE = -1;

/** True when nothing waits for the answer any more. */
function isGivenUp(error: unknown): boolean {
  return error instanceof BerthError && (error.code === "cancelled" || error.code === "upstream_timeout");
}
