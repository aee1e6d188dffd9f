import { CallTable } from "../../lib/call-table.ts";
import type { Limits } from "../../limits/limits.ts";
import { BerthError } from "../../lib/errors.ts";
import type { JsonObject } from "../../lib/json.ts";
import { Ticker } from "../../lib/ticker.ts";
import type { CallOptions, InputRequired } from "../catalog/catalog.ts";
import { isKeyOfOpenCall, OpenCall, openCallOfKey, type Begin } from "./upstream-open-call.ts";

export type SuspendedLimits = Pick<Limits, "answerMs" | "questionBytes" | "upstreamSuspended" | "upstreamCallMs">;

/**
 * Calls of upstreams that wait for an answer. The call at the upstream stays open here, while the client's request ends
 * with the question and comes again with the answer, whose key finds the call in this process. Each round of a call has
 * a time limit, in which the time for an answer does not count.
 */
export class SuspendedCalls {
  readonly #limits: SuspendedLimits;
  readonly #suspended = new Map<string, OpenCall<unknown>>();
  readonly #running = new CallTable<OpenCall<unknown>>();
  readonly #ticker = new Ticker((now) => this.#sweep(now));

  constructor(limits: SuspendedLimits) {
    this.#limits = limits;
  }

  /** Begins the call, or resumes the one that the answers are for. Rejects when that one is gone. */
  async run<T>(options: CallOptions, begin: Begin<T>): Promise<T | InputRequired> {
    const call = this.#resumed<T>(options) ?? new OpenCall(begin, options.principal?.id, this.#limits.questionBytes);
    this.#running.add(call);
    this.#ticker.wake();
    let asks: InputRequired | undefined;
    try {
      const outcome = await call.goOn(options, options.deadlineMs ?? this.#limits.upstreamCallMs);
      if ("ended" in outcome) return outcome.ended;
      asks = outcome;
    } finally {
      this.#running.remove(call);
    }
    if (this.#suspended.size >= this.#limits.upstreamSuspended) {
      call.signal.abort();
      throw new BerthError("upstream_busy", "too many calls wait for the answer to a question");
    }
    this.#suspended.set(call.key, call);
    call.expire(this.#limits.answerMs, () => this.#suspended.delete(call.key));
    return asks;
  }

  #resumed<T>({ answers, principal }: CallOptions): OpenCall<T> | undefined {
    if (!answers) return undefined;
    const keys = Object.keys(answers);
    const callOf = (key: string): OpenCall<unknown> | undefined => {
      const call = this.#suspended.get(openCallOfKey(key));
      return call?.principal === principal?.id ? call : undefined;
    };
    const suspended = keys.findLast(callOf);
    if (suspended !== undefined) {
      const call = callOf(suspended) as OpenCall<T>;
      this.#suspended.delete(call.key);
      return call;
    }
    // The last answers are of this round; earlier ones may be of a call that has ended.
    const last = keys.at(-1);
    if (last === undefined || !isKeyOfOpenCall(last)) return undefined;
    throw new BerthError("guest_failed", "The call that asked is gone; call the tool again", {
      data: { retriable: true },
    });
  }

  #sweep(now: number): boolean {
    for (const call of this.#running.all()) call.giveUpAfter(now);
    return this.#running.size > 0;
  }
}

/** The answers that are for no suspended call, which count for a call made anew. */
export function withoutSuspended(answers: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(answers).filter(([key]) => !isKeyOfOpenCall(key)));
}
