import { randomUUID } from "node:crypto";
import { CallTable } from "../lib/call-table.ts";
import { Cancellation, type CancelSignal } from "../lib/cancellation.ts";
import { clock } from "../lib/clock.ts";
import { BerthError } from "../lib/errors.ts";
import { isObject, JsonText, type JsonObject } from "../lib/json.ts";
import { Ticker } from "../lib/ticker.ts";
import { within } from "../lib/within.ts";
import { limitVariable } from "../limits/limits.ts";
import type { Channel, Closed, ConnectOptions } from "./channel.ts";
import type { Child } from "./child.ts";
import type { UpstreamMessage, RequestMessage } from "./messages.ts";
import { OpenQuestions, type Questions } from "./questions.ts";
import type { RequestOptions, RequestParams, Progress } from "./request.ts";
import type { AnyResult, UpstreamResult } from "./results.ts";
import { refusedByServer, UpstreamError } from "./upstream-error.ts";

/**
 * JSON-RPC with a child, in lines of its pipes: numbers requests, matches answers and progress notifications to them,
 * and keeps every deadline with one timer. Messages that the server sends by itself go to the inbox. Every message of
 * the server is hostile until checked, and answers to no request are dropped. (With the official client a request costs
 * several times what a server does for it, and loading it takes as long as many a server's start.)
 */
export class Pipe implements Channel {
  readonly transport = "stdio";
  readonly child: Child;
  heard = 0;
  /** The members that a modern server expects in the `_meta` of each message. */
  envelope: JsonObject | undefined;
  readonly #timeoutMs: number;
  readonly #inbox: PipeInbox;
  readonly #calls = new CallTable<PipeCall>();
  readonly #ticker = new Ticker(() => this.#sweep(clock.now()));
  #end: string | undefined;

  constructor(child: Child, { limits, onNotification }: PipeOptions, questions: Questions) {
    this.child = child;
    this.#timeoutMs = limits.upstreamCallMs;
    child.onMessage = (message) => this.#hear(message);
    void child.ended.then(({ reason }) => this.#ended(reason));
    this.#inbox = new PipeInbox(this, questions, new OpenQuestions(), onNotification);
  }

  get closed(): Promise<Closed> {
    return this.child.ended;
  }

  close(fault?: string): Promise<void> {
    return this.child.end(fault);
  }

  send(method: string, params: RequestParams, what: string, options: RequestOptions): Promise<AnyResult> {
    return new Promise((resolve, reject) => {
      const { signal, onProgress, meta, timeoutMs = this.#timeoutMs } = options;
      if (signal?.aborted) return reject(new BerthError("cancelled", what));
      const call = new PipeCall(what, onProgress, signal, clock.now() + timeoutMs, resolve, reject);
      this.#calls.add(call);
      try {
        const sent = written(this.#sent(params, meta, onProgress && call.id));
        call.message = this.child.send(
          `{"jsonrpc":"2.0","id":${call.id},"method":${JSON.stringify(method)},"params":${sent}}`,
        );
      } catch (error) {
        return this.#fail(call, this.#notSent(what, error as Error));
      }
      if (timeoutMs !== Infinity) this.#ticker.wake();
      if (!signal) return;
      call.onAbort = () => this.#give(call, "cancelled", new BerthError("cancelled", what));
      signal.addEventListener("abort", call.onAbort);
    });
  }

  /**
   * Subscribes to a modern server's changes (2026-07-28 `basic/patterns/subscriptions`). Resolves when the server has
   * agreed; it answers the request itself when the subscription ends.
   */
  async listen(filter: JsonObject, timeoutMs: number): Promise<void> {
    const what = "listening for changes";
    const stop = new Cancellation();
    const said = this.send("subscriptions/listen", { notifications: filter }, what, {
      timeoutMs: Infinity,
      signal: stop,
    }).then(() => "over" as const);
    const agreed = new Promise<"agreed">((resolve) => (this.#inbox.onAcknowledged = () => resolve("agreed")));
    const answer = await within(timeoutMs, Promise.race([said, agreed]));
    // Nothing waits for its end any more.
    said.catch(() => {});
    if (answer === "agreed") return;
    stop.abort();
    if (answer === "over") throw new UpstreamError("upstream_protocol", `${what}: it does not start`);
    throw new UpstreamError("upstream_timeout", what);
  }

  /** Sends a message that needs no answer. Throws if the server is gone or reads nothing. */
  notify(method: string, params: JsonObject): void {
    this.child.send(JSON.stringify({ jsonrpc: "2.0", method, params: this.#sent(params, undefined, undefined) }));
  }

  /**
   * Answers a question of the server; resolves when it has taken the answer. A server that is gone or reads nothing
   * gets none.
   */
  answer(id: string | number, answer: PipeAnswer): Promise<void> {
    return new Promise((resolve) => {
      try {
        this.child.send(JSON.stringify({ jsonrpc: "2.0", id, ...answer }), resolve);
      } catch {
        resolve();
      }
    });
  }

  #sent(params: RequestParams, meta: JsonObject | undefined, progressToken: number | undefined): RequestParams {
    const { envelope } = this;
    if (!envelope && !meta && progressToken === undefined) return params;
    return { ...params, _meta: { ...envelope, ...meta, ...(progressToken !== undefined && { progressToken }) } };
  }

  #notSent(what: string, error: Error): UpstreamError {
    if (this.#end !== undefined) return new UpstreamError("upstream_ended", `${what}: ${this.#end}`, { cause: error });
    const code = this.child.isRunning ? "upstream_protocol" : "upstream_ended";
    return new UpstreamError(code, `${what}: ${error.message}`, { cause: error });
  }

  /** True when a request waited for it. */
  #hear(message: UpstreamMessage): boolean {
    this.heard++;
    if (!("method" in message)) {
      // Some servers answer with the number as text.
      const id = Number(message.id);
      const call = this.#calls.get(id);
      if (call && !this.child.mayHaveRead(call.message)) this.child.fail(UNREAD_ANSWER);
      else if (call) this.#answered(call, message);
      return call !== undefined;
    }
    if (message.method === PROGRESS) this.#tellProgress(message.params);
    else this.#pass(message);
    return false;
  }

  /** An exception of a listener must not end this process from within a pipe's event. */
  #pass(message: RequestMessage): void {
    try {
      this.#inbox.take(message);
    } catch {
      // The message is of no use to it.
    }
  }

  #answered(call: PipeCall, message: UpstreamMessage): void {
    if ("result" in message && !("error" in message)) {
      this.#forget(call);
      call.resolve(message.result);
      return;
    }
    const { code, message: said, data } = "error" in message && isObject(message.error) ? message.error : NOTHING;
    const error = {
      code: typeof code === "number" ? code : INTERNAL_ERROR,
      message: typeof said === "string" ? said : "it does not say why",
      data,
    };
    this.#fail(call, refusedByServer(call.what, error));
  }

  #tellProgress(params: unknown): void {
    if (isObject(params)) this.#calls.get(Number(params["progressToken"]))?.tell(params);
  }

  /** Gives a request up and tells the server. */
  #give(call: PipeCall, reason: string, error: BerthError): void {
    if (this.#calls.get(call.id) !== call) return;
    this.#fail(call, error);
    try {
      this.notify("notifications/cancelled", { requestId: call.id, reason });
    } catch {
      // Then it is gone, or reads nothing.
    }
  }

  #sweep(now: number): boolean {
    let watched = false;
    for (const call of this.#calls.all()) {
      if (now >= call.deadlineAt) {
        this.#give(
          call,
          "it takes too long",
          new UpstreamError("upstream_timeout", `${call.what} (${limitVariable("upstreamCallMs")})`),
        );
      } else watched ||= call.deadlineAt !== Infinity;
    }
    return watched;
  }

  #ended(reason: string): void {
    this.#end = `it ${reason}`;
    this.#ticker.stop();
    for (const call of this.#calls.all()) {
      this.#fail(call, new UpstreamError("upstream_ended", `${call.what}: ${this.#end}`));
    }
  }

  #fail(call: PipeCall, error: BerthError): void {
    this.#forget(call);
    call.reject(error);
  }

  #forget(call: PipeCall): void {
    this.#calls.remove(call);
    if (call.onAbort) call.signal?.removeEventListener("abort", call.onAbort);
  }
}

/** Arguments that are JSON text may also be in `_meta`. */
function written(params: RequestParams): string {
  const { arguments: long } = params;
  if (!(long instanceof JsonText)) return JSON.stringify(params);
  const mark = randomUUID();
  const around = JSON.stringify(params, (_, value: unknown) => (value instanceof JsonText ? mark : value));
  return around.replaceAll(`"${mark}"`, () => long.text);
}

/** Arguments count to their caller until the call is over: unread ones would go on to wait, uncounted. */
const UNREAD_ANSWER = "answered a request before reading it";
const PROGRESS = "notifications/progress";
const INTERNAL_ERROR = -32603;
const NOTHING: UpstreamResult = {};

/** One request to a child, from its creation to its answer. */
class PipeCall {
  id = 0;
  /** The number of its message among those sent to the child. */
  message = 0;
  onAbort: (() => void) | undefined;
  readonly what: string;
  readonly onProgress: RequestOptions["onProgress"];
  readonly signal: CancelSignal | undefined;
  /** By `clock`. */
  readonly deadlineAt: number;
  readonly resolve: (result: AnyResult) => void;
  readonly reject: (error: BerthError) => void;

  constructor(
    what: string,
    onProgress: RequestOptions["onProgress"],
    signal: CancelSignal | undefined,
    deadlineAt: number,
    resolve: (result: AnyResult) => void,
    reject: (error: BerthError) => void,
  ) {
    this.what = what;
    this.onProgress = onProgress;
    this.signal = signal;
    this.deadlineAt = deadlineAt;
    this.resolve = resolve;
    this.reject = reject;
  }

  /** Reports progress in the server's words. */
  tell({ progress, total, message }: UpstreamResult): void {
    if (!this.onProgress || typeof progress !== "number") return;
    const told: Progress = {
      progress,
      ...(typeof total === "number" && { total }),
      ...(typeof message === "string" && { message }),
    };
    try {
      this.onProgress(told);
    } catch {
      // A listener that throws wants no more of it.
    }
  }
}

/** The messages that a server sends over its pipe by itself: questions, which are answered here, and notifications. */
class PipeInbox {
  onAcknowledged = (): void => {};
  readonly #pipe: Pipe;
  readonly #questions: Questions;
  readonly #asked: OpenQuestions;
  readonly #onNotification: ConnectOptions["onNotification"];
  /** Open questions, by the server's own ids. */
  readonly #open = new Map<string | number, AbortController>();

  constructor(
    pipe: Pipe,
    questions: Questions,
    asked: OpenQuestions,
    onNotification: ConnectOptions["onNotification"],
  ) {
    this.#pipe = pipe;
    this.#questions = questions;
    this.#asked = asked;
    this.#onNotification = onNotification;
    void pipe.child.ended.then(() => this.#cancelAll());
    asked.tooMany.addEventListener("abort", () => void pipe.child.end(asked.fault));
  }

  take(message: RequestMessage): void {
    if (!this.#asked.mayBeHeard(message)) return;
    const { method } = message;
    const params = isObject(message.params) ? (message.params as JsonObject) : {};
    if ("id" in message) void this.#answer(message.id, method, params);
    else if (method === "notifications/cancelled") this.#open.get(params["requestId"] as string | number)?.abort();
    else if (method === "notifications/subscriptions/acknowledged") this.onAcknowledged();
    else this.#onNotification?.(method, params);
  }

  async #answer(id: string | number, method: string, params: JsonObject): Promise<void> {
    const stop = new AbortController();
    this.#open.set(id, stop);
    const answer = await this.#answerTo(method, params, stop.signal);
    if (this.#open.get(id) === stop) this.#open.delete(id);
    // A cancelled question gets no answer.
    if (!stop.signal.aborted) this.#asked.answering(id, this.#pipe.answer(id, answer));
  }

  async #answerTo(method: string, params: JsonObject, signal: AbortSignal): Promise<PipeAnswer> {
    // Older revisions let either side ping.
    if (method === "ping") return { result: {} };
    try {
      return { result: await this.#questions.answer({ method, params }, signal) };
    } catch (error) {
      const { code, message } = error as Error & { code?: unknown };
      return { error: { code: Number.isSafeInteger(code) ? (code as number) : INTERNAL_ERROR, message } };
    }
  }

  #cancelAll(): void {
    for (const stop of this.#open.values()) stop.abort();
    this.#open.clear();
  }
}

type PipeAnswer = { readonly result: JsonObject } | { readonly error: { code: number; message: string } };

type PipeOptions = Pick<ConnectOptions, "limits" | "onNotification">;
