import { randomUUID } from "node:crypto";
import type { Limits } from "../../config.ts";
import { BerthError } from "../../errors.ts";
import type { Json, JsonObject } from "../../json.ts";
import type { Ask } from "../../upstream/connection.ts";
import { UpstreamError } from "../../upstream/upstream-error.ts";
import type { CallOptions, InputRequest, InputRequired } from "../catalog.ts";

/**
 * Calls of servers of others that wait for the answer to a question. The server's call stays open here, while the
 * client's ends with the question and comes again with the answer: by its key the call is found, in this process.
 */
export class SuspendedCalls {
  readonly #limits: SuspendedLimits;
  readonly #calls = new Map<string, OpenCall<unknown>>();

  constructor(limits: SuspendedLimits) {
    this.#limits = limits;
  }

  /** Begins the call, or goes on with the one that the answers are for. Rejects when that one is gone. */
  async run<T>(options: CallOptions, begin: Begin<T>): Promise<T | InputRequired> {
    const call = this.#callOf<T>(options) ?? new OpenCall(begin, options.principal?.id);
    this.#calls.delete(call.id);
    const outcome = await call.goOn(options, options.deadlineMs ?? this.#limits.upstreamCallMs);
    if ("ended" in outcome) return outcome.ended;
    if (this.#calls.size >= this.#limits.upstreamSuspended) {
      call.abort();
      throw new BerthError("upstream_busy", "too many calls wait for the answer to a question");
    }
    this.#calls.set(call.id, call);
    call.expire(this.#limits.answerMs, () => this.#calls.delete(call.id));
    return outcome;
  }

  #callOf<T>({ answers, principal }: CallOptions): OpenCall<T> | undefined {
    const keys = Object.keys(answers ?? {});
    const callOfKey = (key: string): OpenCall<unknown> | undefined => {
      const call = KEY.test(key) ? this.#calls.get(key.slice(0, key.lastIndexOf(":"))) : undefined;
      return call?.principal === principal?.id ? call : undefined;
    };
    const suspended = keys.findLast(callOfKey);
    if (suspended !== undefined) return callOfKey(suspended) as OpenCall<T>;
    // The last ones are the answers of this round; earlier ones may be of a call that came to its end.
    const last = keys.at(-1);
    if (last === undefined || !KEY.test(last)) return undefined;
    throw new BerthError("guest_failed", "The call that asked is gone; call the tool again", {
      data: { retriable: true },
    });
  }
}

/** The answers that are for no suspended call: those that count for one that is made anew. */
export function withoutSuspended(answers: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(answers).filter(([key]) => !KEY.test(key)));
}

export type SuspendedLimits = Pick<Limits, "answerMs" | "upstreamSuspended" | "upstreamCallMs">;

export type Begin<T> = (options: BeginOptions) => Promise<T>;

export interface BeginOptions {
  readonly ask: Ask;
  readonly signal: AbortSignal;
  /** Of the request that waits at present. */
  readonly current: () => CallOptions;
}

const KEY = /^upstream-[0-9a-f-]{36}:\d+$/;

class OpenCall<T> {
  /** Not to be guessed: whoever has it can answer. */
  readonly id = `upstream-${randomUUID()}`;
  /** The id of whoever began it, and goes on with it alone. */
  readonly principal: string | undefined;
  readonly #begin: Begin<T>;
  readonly #abort = new AbortController();
  readonly #questions = new Map<string, { request: InputRequest; answer: (answer: Json) => void }>();
  #options: CallOptions = {};
  #ended: Promise<{ ended: T }> | undefined;
  #onQuestions: (() => void) | undefined;
  #asked = 0;
  #expiry: NodeJS.Timeout | undefined;

  constructor(begin: Begin<T>, principal: string | undefined) {
    this.#begin = begin;
    this.principal = principal;
  }

  /** Resolves with the end, or with the questions that have to be answered before it; `ms` is for this round. */
  async goOn(options: CallOptions, ms: number): Promise<{ ended: T } | InputRequired> {
    clearTimeout(this.#expiry);
    this.#options = options;
    for (const [key, question] of this.#questions) {
      const answer = options.answers?.[key];
      if (answer === undefined) continue;
      this.#questions.delete(key);
      question.answer(answer);
    }
    if (this.#questions.size > 0) return this.#inputRequired();

    const { signal } = options;
    const onAbort = (): void => this.#abort.abort();
    if (signal?.aborted) onAbort();
    signal?.addEventListener("abort", onAbort);
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      onAbort();
    }, ms);
    try {
      const questions = new Promise<void>((resolve) => (this.#onQuestions = resolve)).then(() => this.#inputRequired());
      this.#ended ??= this.#start();
      return await Promise.race([this.#ended, questions]);
    } catch (error) {
      if (isLate) throw new UpstreamError("upstream_timeout", `it took more than ${ms / 1000} s`, { cause: error });
      throw error;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
      this.#onQuestions = undefined;
    }
  }

  /** Nobody answers any more after this time. */
  expire(ms: number, onExpired: () => void): void {
    this.#expiry = setTimeout(() => {
      onExpired();
      this.abort();
    }, ms);
    this.#expiry.unref();
  }

  abort(): void {
    this.#abort.abort();
  }

  #start(): Promise<{ ended: T }> {
    const { signal } = this.#abort;
    const begun = this.#begin({ ask: (question) => this.#ask(question), signal, current: () => this.#options });
    const ended = begun.then((value) => ({ ended: value }));
    // It may fail while nobody waits for it, between two rounds.
    ended.catch(() => {});
    return ended;
  }

  #ask({ method, params }: { method: string; params: JsonObject }): Promise<JsonObject> {
    const key = `${this.id}:${++this.#asked}`;
    return new Promise((answer) => {
      this.#questions.set(key, {
        request: { method: method as InputRequest["method"], params },
        answer: (given) => answer(given as JsonObject),
      });
      // What is asked side by side goes out together.
      setImmediate(() => this.#onQuestions?.());
    });
  }

  #inputRequired(): InputRequired {
    const requests = [...this.#questions].map(([key, { request }]) => [key, request] as const);
    return { inputRequests: Object.fromEntries(requests) };
  }
}
