import { randomUUID } from "node:crypto";
import { Cancellation } from "../../lib/cancellation.ts";
import { BerthError } from "../../lib/errors.ts";
import { limitVariable } from "../../limits/limits.ts";
import type { Json, JsonObject } from "../../lib/json.ts";
import type { UpstreamQuestion } from "../../upstream/request.ts";
import { UpstreamError } from "../../upstream/upstream-error.ts";
import type { CallOptions, InputRequest, InputRequired } from "../catalog/catalog.ts";

/** Makes the call at the upstream. */
export type Begin<T> = (caller: Caller) => Promise<T>;

/** A call's view of its caller. */
export interface Caller {
  /** Aborted when nobody waits for the call any more. */
  readonly signal: Cancellation;
  /** The options of the request that waits now. */
  readonly options: CallOptions;
  ask(question: UpstreamQuestion): Promise<JsonObject>;
}

interface Round<T> {
  resolve(outcome: { ended: T } | InputRequired): void;
  reject(error: unknown): void;
  /** The time that it may take, and its deadline on the clock of `performance.now()`. */
  readonly ms: number;
  readonly deadlineAt: number;
}

interface AskedQuestion {
  readonly request: InputRequest;
  readonly bytes: number;
  readonly answer: (answer: JsonObject) => void;
}

/**
 * One call at an upstream, over as many requests of its client as it takes: each is a round, which ends with the call
 * or with its questions. Most calls ask nothing, so the structures for questions are made on demand.
 */
export class OpenCall<T> implements Caller {
  /** Its number while a round is under way. */
  id = 0;
  readonly signal = new Cancellation();
  /** The id of the principal that made the call; no other may answer its questions. */
  readonly principal: string | undefined;
  readonly #begin: Begin<T>;
  #options: CallOptions = {};
  #call: Promise<T> | undefined;
  #round: Round<T> | undefined;
  #key: string | undefined;
  #questions: Map<string, AskedQuestion> | undefined;
  readonly #questionBytes: number;
  #asked = 0;
  /** The bytes of all open questions. */
  #askedBytes = 0;
  #failure: BerthError | undefined;
  #expiry: NodeJS.Timeout | undefined;

  constructor(begin: Begin<T>, principal: string | undefined, questionBytes: number) {
    this.#begin = begin;
    this.#questionBytes = questionBytes;
    this.principal = principal;
  }

  /** Not guessable: its holder can answer. */
  get key(): string {
    return (this.#key ??= `upstream-${randomUUID()}`);
  }

  get options(): CallOptions {
    return this.#options;
  }

  /** Resolves with the call's result, or with the questions to answer first; `ms` is the limit of this round. */
  async goOn(options: CallOptions, ms: number): Promise<{ ended: T } | InputRequired> {
    clearTimeout(this.#expiry);
    this.#options = options;
    if (this.#failure) throw this.#failure;
    if (options.answers) this.#answer(options.answers);
    if (this.#questions && this.#questions.size > 0) return this.#inputRequired(this.#questions);

    const { signal } = options;
    const onAbort = (): void => this.signal.abort();
    if (signal?.aborted) onAbort();
    signal?.addEventListener("abort", onAbort);
    try {
      return await new Promise((resolve, reject) => {
        this.#round = { resolve, reject, ms, deadlineAt: performance.now() + ms };
        void this.#tellEnd((this.#call ??= this.#begin(this)));
      });
    } finally {
      signal?.removeEventListener("abort", onAbort);
    }
  }

  /** Ends the round, and the call with it, if the round's time is over. */
  giveUpAfter(now: number): void {
    if (!this.#round || now < this.#round.deadlineAt) return;
    const round = this.#endRound()!;
    round.reject(new UpstreamError("upstream_timeout", `it took more than ${round.ms / 1000} s`));
    this.signal.abort();
  }

  /** Gives up the call if no answer comes within this time. */
  expire(ms: number, onExpired: () => void): void {
    this.#expiry = setTimeout(() => {
      onExpired();
      this.signal.abort();
    }, ms);
    this.#expiry.unref();
  }

  ask({ key: name, method, params }: UpstreamQuestion): Promise<JsonObject> {
    const key = `${this.key}:${++this.#asked}${name === undefined ? "" : `:${name}`}`;
    const bytes = Buffer.byteLength(name ?? "") + Buffer.byteLength(JSON.stringify(params));
    this.#askedBytes += bytes;
    if (this.#askedBytes > this.#questionBytes) return Promise.reject(this.#asksTooMuch());
    const questions = (this.#questions ??= new Map<string, AskedQuestion>());
    return new Promise((answer) => {
      questions.set(key, { request: { method: method as InputRequest["method"], params }, bytes, answer });
      // Questions asked at the same time go out together.
      setImmediate(() => {
        if (questions.has(key)) this.#endRound()?.resolve(this.#inputRequired(questions));
      });
    });
  }

  /** Keeps no questions: the call may be suspended until its client comes back. */
  #asksTooMuch(): BerthError {
    const limit = `${limitVariable("questionBytes")} is ${this.#questionBytes}`;
    this.#failure ??= new BerthError("guest_failed", `it asks more bytes at once than the limit ${limit}`);
    this.#questions?.clear();
    this.#endRound()?.reject(this.#failure);
    this.signal.abort();
    return this.#failure;
  }

  /** The call may have ended before this round, or may end in a later one. */
  async #tellEnd(call: Promise<T>): Promise<void> {
    try {
      const ended = await call;
      this.#endRound()?.resolve({ ended });
    } catch (error) {
      this.#endRound()?.reject(error);
    }
  }

  /** Takes the round that is under way; the caller has to settle it. */
  #endRound(): Round<T> | undefined {
    const round = this.#round;
    this.#round = undefined;
    return round;
  }

  #answer(answers: JsonObject): void {
    for (const [key, { bytes, answer }] of this.#questions ?? []) {
      const given: Json | undefined = answers[key];
      if (given === undefined) continue;
      this.#questions!.delete(key);
      this.#askedBytes -= bytes;
      answer(given as JsonObject);
    }
  }

  #inputRequired(questions: ReadonlyMap<string, AskedQuestion>): InputRequired {
    const requests = [...questions].map(([key, { request }]) => [key, request] as const);
    return { inputRequests: Object.fromEntries(requests) };
  }
}

/** The key of its call, a number, and the name that a modern upstream gave the question. */
const KEY = /^(upstream-[0-9a-f-]{36}):\d+(?::(.*))?$/s;

/** True when an answer is for the question of an open call. */
export function isKeyOfOpenCall(key: string): boolean {
  return KEY.test(key);
}

/** Extracts the call's key from the key of its question. */
export function openCallOfKey(key: string): string {
  return KEY.exec(key)?.[1] ?? "";
}

/** The name that a modern upstream gave the question with this key. */
export function nameOfKey(key: string): string | undefined {
  return KEY.exec(key)?.[2];
}
