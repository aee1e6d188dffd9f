import { CallTable } from "../../lib/call-table.ts";
import { Cancellation } from "../../lib/cancellation.ts";
import { BerthError } from "../../lib/errors.ts";
import { isObject, JsonText, type JsonObject, type Json } from "../../lib/json.ts";
import { isLogLevel } from "../../lib/log-level.ts";
import { Ticker } from "../../lib/ticker.ts";
import { limitVariable, type Limits } from "../../limits/limits.ts";
import type { UpstreamConnection } from "../../upstream/connection.ts";
import type { Ask, UpstreamCallOptions as SentOptions, UpstreamQuestion } from "../../upstream/request.ts";
import { UpstreamError } from "../../upstream/upstream-error.ts";
import type { Upstream, UpstreamCall } from "../../upstream/upstream.ts";
import type { CallOptions, GuestLog, InputRequired, InputRequest } from "../catalog/catalog.ts";
import { hash, randomUUID } from "node:crypto";

/** A request's name and parameters, and how a connection sends it. */
export interface UpstreamRequest<T> {
  readonly name?: string;
  /** The arguments of a tool call. */
  readonly args?: JsonObject | JsonText;
  readonly meta?: JsonObject;
  readonly send: (connection: UpstreamConnection, options: SentOptions) => Promise<T>;
}

/** Sends a request to an upstream, with all of the caller's options that an upstream can use. */
export function callUpstream<T>(
  upstream: Upstream,
  suspended: SuspendedCalls,
  { name = "", args, meta, send }: UpstreamRequest<T>,
  options: CallOptions,
): Promise<T | InputRequired> {
  return suspended.run<T>(options, (caller) => {
    const digest = args && digestOf(name, args);
    const call: UpstreamCall = { name, digest, ask: askOf(caller), onLog: options.onLog && logTo(caller) };
    return upstream.request(call, (connection, ask) => send(connection, sentOptions(caller, connection, meta, ask)));
  });
}

/** Recognizes a call that comes again. Long arguments already have a digest. */
function digestOf(name: string, args: JsonObject | JsonText): string {
  const what = args instanceof JsonText ? args.givenDigest.sha256 : args;
  return hash("sha256", JSON.stringify([name, what]), "base64url");
}

/** Returns how to ask the caller; undefined for a caller that cannot be asked anything. */
function askOf(caller: Caller): Ask | undefined {
  const capabilities = caller.options.client?.capabilities;
  if (!capabilities) return undefined;
  const { elicitation, sampling, roots } = capabilities;
  if (!isObject(elicitation) && !isObject(sampling) && !isObject(roots)) return undefined;
  return async (question) => {
    const capability = CAPABILITIES[question.method];
    if (capability !== undefined && isObject(caller.options.client?.capabilities[capability]))
      return caller.ask(question);
    throw Object.assign(new Error(`The caller has no capability for ${question.method}`), { code: -32601 });
  };
}

function logTo(caller: Caller): UpstreamCall["onLog"] {
  return (params) => caller.options.onLog?.(logLine(params));
}

function sentOptions(
  caller: Caller,
  { era }: UpstreamConnection,
  meta: JsonObject | undefined,
  ask: Ask | undefined,
): SentOptions {
  const { onProgress, onLog, client, trace } = caller.options;
  const isModern = era === "modern";
  return {
    signal: caller.signal,
    // `SuspendedCalls` limits the time of a call, since it can leave out the time for an answer.
    timeoutMs: Infinity,
    ...(onProgress && { onProgress: (event) => void caller.options.onProgress?.({ ...event }) }),
    ...(ask && { ask }),
    ...((meta || onLog || isModern || trace?.context) && {
      meta: {
        ...meta,
        ...trace?.context,
        ...(onLog && { [LOG_LEVEL]: "debug" }),
        // Tells a modern upstream what this caller can be asked. The connection told a legacy one what callers may be
        // asked.
        ...(isModern && { [CLIENT_CAPABILITIES]: askable(client?.capabilities ?? {}) }),
      },
    }),
  };
}

/** The capability that a client needs for each kind of question. */
const CAPABILITIES: Readonly<Record<string, string>> = {
  "elicitation/create": "elicitation",
  "sampling/createMessage": "sampling",
  "roots/list": "roots",
};

/** Only those of a client's capabilities that are about questions. */
function askable(capabilities: JsonObject): JsonObject {
  const { elicitation, sampling, roots } = capabilities;
  const modes = ["form", "url"].filter((mode) => isObject(elicitation) && isObject(elicitation[mode]));
  return {
    ...(isObject(elicitation) && { elicitation: Object.fromEntries(modes.map((mode) => [mode, {}])) }),
    ...(isObject(sampling) && { sampling: {} }),
    ...(isObject(roots) && { roots: {} }),
  };
}

/** 2026-07-28 `basic`: each request states the client's capabilities. */
const CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";

/** 2026-07-28 `server/utilities/logging`: the lowest level that a request wants to receive. */
const LOG_LEVEL = "io.modelcontextprotocol/logLevel";

function logLine({ level, data, logger }: JsonObject): GuestLog {
  return {
    level: isLogLevel(level) ? level : "info",
    message: data ?? null,
    ...(typeof logger === "string" && { logger }),
  };
}

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
