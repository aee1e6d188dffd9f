import { randomUUID } from "node:crypto";
import { CallTable } from "../../lib/call-table.ts";
import { Cancellation } from "../../lib/cancellation.ts";
import { clock } from "../../lib/clock.ts";
import { BerthError } from "../../lib/errors.ts";
import { isObject, type JsonObject, type Json } from "../../lib/json.ts";
import { isLogLevel } from "../../lib/log-level.ts";
import { Ticker } from "../../lib/ticker.ts";
import type { Trace } from "../../lib/trace.ts";
import { fixed } from "../../limits/fixed.ts";
import { limitVariable, type Limits } from "../../limits/limits.ts";
import { QUESTION_BYTES } from "../../outcome/question.ts";
import type { TaskOfUpstream, TaskUse, UpstreamQuestion } from "../../upstream/messages/request.ts";
import { UpstreamError } from "../../upstream/messages/upstream-error.ts";
import type { Upstream, UpstreamCaller, UpstreamRequest, UpstreamResults } from "../../upstream/upstream.ts";
import type { CallOptions, ClientFacts, GuestLog, InputRequired, InputRequest } from "../offers/catalog.ts";

/** Concurrent calls that wait for the answer to a question of an upstream. */
const bounds = fixed({ upstreamSuspended: 1_000 });

export type SuspendedLimits = Pick<Limits, "answerMs" | "upstreamCallMs">;

/** The options of a caller that a round needs: another node may have sent them. */
export interface RoundOptions extends Pick<
  CallOptions,
  "signal" | "onProgress" | "onLog" | "answers" | "deadlineMs" | "onTask" | "task" | "refusesTasks"
> {
  readonly principal?: { readonly id: string };
  readonly client?: Pick<ClientFacts, "capabilities">;
  readonly trace?: Pick<Trace, "context"> | undefined;
}

/**
 * Calls of upstreams that wait for an answer. The call at the upstream stays open here, while the client's request ends
 * with the question and comes again with the answer, whose key finds the call on this node. Each round of a call has a
 * time limit, in which the time for an answer does not count.
 */
export class SuspendedCalls {
  readonly #node: string;
  readonly #upstream: Requested;
  readonly #limits: SuspendedLimits;
  readonly #suspended = new Map<string, OpenCall<UpstreamRequest>>();
  readonly #running = new CallTable<OpenCall<UpstreamRequest>>();
  readonly #ticker = new Ticker(() => this.#sweep(clock.now()));

  /** `node` is the id of this one, which the keys of its calls name. */
  constructor(upstream: Requested, limits: SuspendedLimits, node: string) {
    this.#node = node;
    this.#upstream = upstream;
    this.#limits = limits;
  }

  begin<Request extends UpstreamRequest>(
    request: Request,
    options: RoundOptions,
  ): Promise<RoundEnd<ResultOf<Request>>> {
    return this.#run(new OpenCall(this.#upstream, request, options.principal?.id, this.#node), options);
  }

  /** Resumes the call that the answers are for; undefined where it is not here. */
  resume(options: RoundOptions): Promise<RoundEnd<object>> | undefined {
    const call = this.#suspendedFor(options);
    if (!call) return undefined;
    this.#suspended.delete(call.key);
    return this.#run(call, options);
  }

  async #run<Request extends UpstreamRequest>(
    call: OpenCall<Request>,
    options: RoundOptions,
  ): Promise<RoundEnd<ResultOf<Request>>> {
    this.#running.add(call);
    this.#ticker.wake();
    let asks: InputRequired | undefined;
    try {
      const { upstreamCallMs } = this.#limits;
      // What is no task yet has the time of a call.
      const ms = options.onTask ? upstreamCallMs : (options.deadlineMs ?? upstreamCallMs);
      const outcome = await call.goOn(options, ms);
      if ("ended" in outcome) return outcome;
      asks = outcome;
    } finally {
      this.#running.remove(call);
    }
    if (this.#suspended.size >= bounds.upstreamSuspended) {
      call.signal.abort();
      throw new BerthError("upstream_busy", "too many calls wait for the answer to a question");
    }
    this.#suspended.set(call.key, call);
    call.expire(this.#limits.answerMs, () => this.#suspended.delete(call.key));
    return asks;
  }

  /** Ends the task of an upstream that waits here for answers; false if it does not. */
  cancelTask(task: TaskOfUpstream, principal: string | undefined): boolean {
    for (const call of this.#suspended.values()) {
      if (call.task?.id !== task.id || call.principal !== principal) continue;
      this.#suspended.delete(call.key);
      call.signal.abort();
      return true;
    }
    return false;
  }

  #suspendedFor({ answers = {}, principal }: RoundOptions): OpenCall<UpstreamRequest> | undefined {
    for (const key of Object.keys(answers).toReversed()) {
      const call = this.#suspended.get(KEY.exec(key)?.[1] ?? "");
      if (call && call.principal === principal?.id) return call;
    }
    return undefined;
  }

  #sweep(now: number): boolean {
    for (const call of this.#running.all()) call.giveUpAfter(now);
    return this.#running.size > 0;
  }
}

/**
 * The node on which the call that asked last is suspended; undefined if none did. An earlier answer may be of a call that
 * has ended: `isOwed` tells that the last answers are for this one, which therefore must not be made anew.
 */
export function askerIn(answers: JsonObject): { readonly node: string; readonly isOwed: boolean } | undefined {
  const keys = Object.keys(answers);
  const asked = keys.findLast(isKeyOfOpenCall);
  return asked === undefined ? undefined : { node: KEY.exec(asked)?.[2] ?? "", isOwed: asked === keys.at(-1) };
}

export function callIsGone(): BerthError {
  return new BerthError("guest_failed", "The call that asked is gone; call the tool again", {
    data: { retriable: true },
  });
}

/** The answers that are for no suspended call, which count for a call made anew. */
export function withoutSuspended(answers: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(answers).filter(([key]) => !isKeyOfOpenCall(key)));
}

/** The upstream, as far as its calls need it. */
type Requested = Pick<Upstream, "request">;

/** A call's result, or the questions to answer first. */
export type RoundEnd<Result> =
  /** A call that became a task of its upstream is never made anew. */
  { readonly ended: Result; readonly isOfTask?: boolean } | InputRequired;

export type ResultOf<Request extends UpstreamRequest> = UpstreamResults[Request["method"]];

interface Round<Result> {
  resolve(end: RoundEnd<Result>): void;
  reject(error: unknown): void;
  /** The time that it may take, and its deadline by `clock`. */
  ms: number;
  deadlineAt: number;
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
export class OpenCall<Request extends UpstreamRequest> {
  /** Its number while a round is under way. */
  id = 0;
  readonly signal = new Cancellation();
  /** The task of the upstream that it has become. */
  task: TaskOfUpstream | undefined;
  /** The id of the principal that made the call; no other may answer its questions. */
  readonly principal: string | undefined;
  readonly #upstream: Requested;
  readonly #request: Request;
  readonly #node: string;
  /** Those of the client's request that waits now. */
  #options: RoundOptions = {};
  #call: Promise<ResultOf<Request>> | undefined;
  #round: Round<ResultOf<Request>> | undefined;
  #key: string | undefined;
  #questions: Map<string, AskedQuestion> | undefined;
  /** The names of unasked answers that were passed on. */
  #used: Set<string> | undefined;
  #asked = 0;
  /** The bytes of all open questions. */
  #askedBytes = 0;
  #failure: BerthError | undefined;
  #isLeft = false;
  #expiry: NodeJS.Timeout | undefined;

  /** `node` is the id of this one. */
  constructor(upstream: Requested, request: Request, principal: string | undefined, node: string) {
    this.#upstream = upstream;
    this.#request = request;
    this.#node = node;
    this.principal = principal;
    this.task = request.method === "tools/call" ? request.task : undefined;
  }

  /** Not guessable: its holder can answer. */
  get key(): string {
    return (this.#key ??= `upstream-${this.#node}.${randomUUID()}`);
  }

  /** Resolves with the call's result, or with the questions to answer first; `ms` is the limit of this round. */
  async goOn(options: RoundOptions, ms: number): Promise<RoundEnd<ResultOf<Request>>> {
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
        this.#round = { resolve, reject, ms, deadlineAt: clock.now() + ms };
        void this.#tellEnd((this.#call ??= this.#upstream.request(this.#request, this.#caller())));
      });
    } finally {
      signal?.removeEventListener("abort", onAbort);
    }
  }

  /** Ends the round, and the call with it, if the round's time is over. */
  giveUpAfter(now: number): void {
    if (!this.#round || now < this.#round.deadlineAt) return;
    const round = this.#endRound()!;
    round.reject(
      new UpstreamError(
        "upstream_timeout",
        `it took more than ${round.ms / 1000} s (${limitVariable("upstreamCallMs")})`,
      ),
    );
    this.signal.abort();
  }

  /** Gives up the call if no answer comes within this time. */
  expire(ms: number, onExpired: () => void): void {
    this.#expiry = setTimeout(() => {
      onExpired();
      // A task waits for its answers for as long as its upstream keeps it.
      this.#isLeft = true;
      this.signal.abort();
    }, ms);
    this.#expiry.unref();
  }

  #caller(): UpstreamCaller {
    const { client, trace, onLog, onProgress } = this.#options;
    const { method } = this.#request;
    return {
      signal: this.signal,
      // Limited here by rounds, since the time for an answer does not count.
      timeoutMs: Infinity,
      capabilities: client?.capabilities ?? {},
      trace: trace?.context,
      ask: canBeAsked(client) ? (question) => this.#ask(question) : undefined,
      onLog: onLog && ((params) => this.#options.onLog?.(logLine(params))),
      onProgress: onProgress && ((event) => void this.#options.onProgress?.({ ...event })),
      tasks: method === "tools/call" ? this.#taskUse() : undefined,
    };
  }

  #taskUse(): TaskUse | undefined {
    const { onTask, task, refusesTasks } = this.#options;
    const isLeft = (): boolean => this.#isLeft;
    if (!onTask && !task) return refusesTasks ? { isRefused: true } : undefined;
    return {
      isLeft,
      onTask: (made) => this.#becomes(made),
      onStatus: (message) => void this.#options.onProgress?.(message),
    };
  }

  #becomes(made: TaskOfUpstream): void {
    this.task = { ...made, ...(made.program !== undefined && { node: this.#node }) };
    const { onTask, deadlineMs } = this.#options;
    const round = this.#round;
    if (round && deadlineMs !== undefined) {
      [round.ms, round.deadlineAt] = [deadlineMs, clock.now() + deadlineMs];
    }
    onTask?.(this.task);
  }

  async #ask({ key: name, method, params }: UpstreamQuestion): Promise<JsonObject> {
    const capability = CAPABILITIES[method];
    // The client's next request may state other capabilities than its first.
    if (capability === undefined || !isObject(this.#options.client?.capabilities[capability])) {
      throw Object.assign(new Error(`The caller does not support ${method}`), { code: -32601 });
    }
    const known = name === undefined ? undefined : this.#answered(name);
    if (known) return known;
    const key = `${this.key}:${++this.#asked}${name === undefined ? "" : `:${name}`}`;
    const bytes = Buffer.byteLength(name ?? "") + Buffer.byteLength(JSON.stringify(params));
    this.#askedBytes += bytes;
    if (this.#askedBytes > QUESTION_BYTES) throw this.#asksTooMuch();
    const questions = (this.#questions ??= new Map<string, AskedQuestion>());
    return new Promise((answer) => {
      questions.set(key, { request: { method: method as InputRequest["method"], params }, bytes, answer });
      // Questions asked at the same time go out together.
      setImmediate(() => {
        if (questions.has(key)) this.#endRound()?.resolve(this.#inputRequired(questions));
      });
    });
  }

  /**
   * The answer to a question of this name that an earlier call for the same task asked, or that the client gave unasked:
   * the latter once, since an upstream that asks again has rejected it.
   */
  #answered(name: string): JsonObject | undefined {
    const isTask = this.#request.method === "tools/call" && this.#request.task !== undefined;
    const { answers = {} } = this.#options;
    const key = Object.keys(answers).findLast((each) =>
      each === name ? !this.#used?.has(name) : isTask && nameOfKey(each) === name,
    );
    if (key === name) (this.#used ??= new Set()).add(name);
    return key === undefined ? undefined : (answers[key] as JsonObject);
  }

  /** Keeps no questions: the call may be suspended until its client comes back. */
  #asksTooMuch(): BerthError {
    const detail = `its open questions have more than ${QUESTION_BYTES} bytes together`;
    this.#failure ??= new BerthError("guest_failed", detail);
    this.#questions?.clear();
    this.#endRound()?.reject(this.#failure);
    this.signal.abort();
    return this.#failure;
  }

  /** The call may have ended before this round, or may end in a later one. */
  async #tellEnd(call: Promise<ResultOf<Request>>): Promise<void> {
    try {
      const ended = await call;
      this.#endRound()?.resolve(this.task ? { ended, isOfTask: true } : { ended });
    } catch (error) {
      this.#endRound()?.reject(error);
    }
  }

  /** Takes the round that is under way; the caller has to settle it. */
  #endRound(): Round<ResultOf<Request>> | undefined {
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

function canBeAsked(client: RoundOptions["client"]): boolean {
  const { elicitation, sampling, roots } = client?.capabilities ?? {};
  return isObject(elicitation) || isObject(sampling) || isObject(roots);
}

/** The capability that a client needs for each kind of question. */
const CAPABILITIES: Readonly<Record<string, string>> = {
  "elicitation/create": "elicitation",
  "sampling/createMessage": "sampling",
  "roots/list": "roots",
};

function logLine({ level, data, logger }: JsonObject): GuestLog {
  return {
    level: isLogLevel(level) ? level : "info",
    message: data ?? null,
    ...(typeof logger === "string" && { logger }),
  };
}

/** The key of its call, with its node in it; a number; and the name that a modern upstream gave the question. */
const KEY = /^(upstream-(?:([\w-]{1,32})\.)?[0-9a-f-]{36}):\d+(?::(.*))?$/s;

/** True when an answer is for the question of an open call. */
function isKeyOfOpenCall(key: string): boolean {
  return KEY.test(key);
}

/** The name that a modern upstream gave the question with this key. */
export function nameOfKey(key: string): string | undefined {
  return KEY.exec(key)?.[3];
}
