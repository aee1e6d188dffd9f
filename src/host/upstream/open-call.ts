import { randomUUID } from "node:crypto";
import { Cancellation } from "../../lib/cancellation.ts";
import { BerthError } from "../../lib/errors.ts";
import { limitVariable } from "../../limits/limits.ts";
import type { Json, JsonObject } from "../../lib/json.ts";
import type { Question } from "../../upstream/request.ts";
import { UpstreamError } from "../../upstream/upstream-error.ts";
import type { CallOptions, InputRequest, InputRequired } from "../catalog.ts";

/** Makes a call at the server. */
export type Begin<T> = (caller: Caller) => Promise<T>;

/** What a call has of whoever made it. */
export interface Caller {
  /** Aborted when nobody waits for the call any more. */
  readonly signal: Cancellation;
  /** Of the request that waits at present. */
  readonly options: CallOptions;
  ask(question: Question): Promise<JsonObject>;
}

interface Round<T> {
  resolve(outcome: { ended: T } | InputRequired): void;
  reject(error: unknown): void;
  /** How long it may take, and until when on the clock of `performance.now()`. */
  readonly ms: number;
  readonly deadlineAt: number;
}

interface AskedQuestion {
  readonly request: InputRequest;
  readonly bytes: number;
  readonly answer: (answer: JsonObject) => void;
}

/**
 * One call at a server of others, over as many requests of its client as it takes: each is a round, which ends with
 * the call or with its questions. Most calls ask nothing, so what a question takes is made when there is one.
 */
export class OpenCall<T> implements Caller {
  /** Its number while a round is under way. */
  id = 0;
  readonly signal = new Cancellation();
  /** Who made the call, by id: nobody else may answer for them. */
  readonly principal: string | undefined;
  readonly #begin: Begin<T>;
  #options: CallOptions = {};
  #call: Promise<T> | undefined;
  #round: Round<T> | undefined;
  #key: string | undefined;
  #questions: Map<string, AskedQuestion> | undefined;
  readonly #questionBytes: number;
  #asked = 0;
  /** Of the questions that are open. */
  #askedBytes = 0;
  #failure: BerthError | undefined;
  #expiry: NodeJS.Timeout | undefined;

  constructor(begin: Begin<T>, principal: string | undefined, questionBytes: number) {
    this.#begin = begin;
    this.#questionBytes = questionBytes;
    this.principal = principal;
  }

  /** Not to be guessed: whoever has it can answer. */
  get key(): string {
    return (this.#key ??= `upstream-${randomUUID()}`);
  }

  get options(): CallOptions {
    return this.#options;
  }

  /** Resolves with the end, or with the questions that have to be answered before it; `ms` is for this round. */
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

  /** Ends the round if its time is over, and the call with it. */
  giveUpAfter(now: number): void {
    if (!this.#round || now < this.#round.deadlineAt) return;
    const round = this.#endRound()!;
    round.reject(new UpstreamError("upstream_timeout", `it took more than ${round.ms / 1000} s`));
    this.signal.abort();
  }

  /** Nobody answers any more after this time. */
  expire(ms: number, onExpired: () => void): void {
    this.#expiry = setTimeout(() => {
      onExpired();
      this.signal.abort();
    }, ms);
    this.#expiry.unref();
  }

  ask({ key: name, method, params }: Question): Promise<JsonObject> {
    const key = `${this.key}:${++this.#asked}${name === undefined ? "" : `:${name}`}`;
    const bytes = Buffer.byteLength(name ?? "") + Buffer.byteLength(JSON.stringify(params));
    this.#askedBytes += bytes;
    if (this.#askedBytes > this.#questionBytes) return Promise.reject(this.#asksTooMuch());
    const questions = (this.#questions ??= new Map<string, AskedQuestion>());
    return new Promise((answer) => {
      questions.set(key, { request: { method: method as InputRequest["method"], params }, bytes, answer });
      // What is asked side by side goes out together.
      setImmediate(() => {
        if (questions.has(key)) this.#endRound()?.resolve(this.#inputRequired(questions));
      });
    });
  }

  /** Nothing of what was asked is kept: the call may have been left for its client to come back to. */
  #asksTooMuch(): BerthError {
    const limit = `${limitVariable("questionBytes")} is ${this.#questionBytes}`;
    this.#failure ??= new BerthError("guest_failed", `it asks more bytes at once than the limit ${limit}`);
    this.#questions?.clear();
    this.#endRound()?.reject(this.#failure);
    this.signal.abort();
    return this.#failure;
  }

  /** The call may have come to its end before this round, or comes to it in a later one. */
  async #tellEnd(call: Promise<T>): Promise<void> {
    try {
      const ended = await call;
      this.#endRound()?.resolve({ ended });
    } catch (error) {
      this.#endRound()?.reject(error);
    }
  }

  /** The round that is under way, which whoever calls this has to settle. */
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

/** The key of its call, a number, and the name that a modern server gave the question. */
const KEY = /^(upstream-[0-9a-f-]{36}):\d+(?::(.*))?$/s;

/** Whether an answer is for the question of such a call. */
export function isKeyOfOpenCall(key: string): boolean {
  return KEY.test(key);
}

/** The call's own key in that of its question. */
export function openCallOfKey(key: string): string {
  return KEY.exec(key)?.[1] ?? "";
}

/** The name that a modern server gave the question with this key. */
export function nameOfKey(key: string): string | undefined {
  return KEY.exec(key)?.[2];
}
