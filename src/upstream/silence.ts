import { BerthError } from "../lib/errors.ts";
import type { UpstreamConnection } from "./connection.ts";

type Asked = Pick<UpstreamConnection, "heard" | "isThere">;

/**
 * Finds out that a server of others says nothing any more: one that is stopped, or in a loop without end, is a process
 * that runs. It is asked once a call was given up and nothing came since one was made; whoever says anything at all is
 * there, however long a call takes.
 */
export class Silence {
  readonly #connection: Asked;
  readonly #pingMs: number;
  /** What was heard when the request was made that waits for longest; NONE while none does. */
  #heard = NONE;
  #since = 0;
  #isAsked = false;
  readonly #calls = new Set<string>();

  constructor(connection: Asked, pingMs: number) {
    this.#connection = connection;
    this.#pingMs = pingMs;
  }

  /** Since when it has said nothing, though it was asked something: on the clock of `performance.now()`. */
  get since(): number {
    return this.#since;
  }

  /** The calls that were given up since then. */
  get calls(): ReadonlySet<string> {
    return this.#calls;
  }

  /** A request is to be made. */
  began(): void {
    const { heard } = this.#connection;
    if (heard === this.#heard) return;
    this.#heard = heard;
    this.#since = performance.now();
    this.#calls.clear();
  }

  /** A request has come to its end, other than by being given up. */
  ended(): void {
    this.#heard = NONE;
  }

  /** A request has failed. Gives whether the server is found to say nothing any more, and gives that once. */
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

/** Whether nobody waits for the answer any more. */
function isGivenUp(error: unknown): boolean {
  return error instanceof BerthError && (error.code === "cancelled" || error.code === "upstream_timeout");
}
