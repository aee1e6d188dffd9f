import { randomUUID } from "node:crypto";
import { CallTable } from "../../lib/call-table.ts";
import { Cancellation, type CancelSignal } from "../../lib/cancellation.ts";
import { clock } from "../../lib/clock.ts";
import { BerthError } from "../../lib/errors.ts";
import { JsonText, type JsonObject } from "../../lib/json.ts";
import { Ticker } from "../../lib/ticker.ts";
import { within } from "../../lib/within.ts";
import { limitVariable } from "../../limits/limits.ts";
import {
  readOutcome,
  readParams,
  requestNumber,
  type AnswerMessage,
  type Deviate,
  type MessageId,
  type RequestMessage,
  type UpstreamMessage,
} from "../messages/messages.ts";
import type { RequestOptions, RequestParams } from "../messages/request.ts";
import { protocolError, type AnyResult } from "../messages/results.ts";
import { refusedByServer, UpstreamError } from "../messages/upstream-error.ts";
import type { ConnectOptions, Peer } from "./channel.ts";
import type { OpenQuestions, Questions } from "./questions.ts";
import type { Failure, OutgoingRequest, Receiver, Transport } from "./transport.ts";

/**
 * JSON-RPC with a server over any transport: numbers requests, matches answers and progress notifications to them, and
 * enforces all deadlines with one timer. Unsolicited messages go to the inbox. Every message of the server is untrusted
 * until checked.
 */
export class RpcChannel implements Receiver {
  received = 0;
  readonly deviate: Deviate;
  readonly transport: Transport;
  readonly #timeoutMs: number;
  readonly #inbox: Inbox;
  readonly #onNotification: ConnectOptions["onNotification"];
  readonly #calls = new CallTable<Call>();
  readonly #ticker = new Ticker(() => this.#sweep(clock.now()));
  #isClosed = false;
  /** Answers to abandoned requests may still arrive. */
  #hasAbandoned = false;
  /** The members that a modern server expects in the `_meta` of each message. */
  #envelope: JsonObject | undefined;

  constructor(transport: Transport, options: RpcOptions, questions: Questions, openQuestions: OpenQuestions) {
    const { limits, onNotification, onDeviation } = options;
    this.transport = transport;
    this.#timeoutMs = limits.upstreamCallMs;
    this.#onNotification = onNotification;
    this.deviate = onDeviation ?? (() => {});
    this.#inbox = new Inbox(transport, questions, openQuestions, onNotification);
    transport.receiver = this;
    void transport.closed.then(() => this.#closed());
  }

  #closed(): void {
    this.#isClosed = true;
    this.#ticker.stop();
  }

  async completeHandshake(peer: Peer, envelope: JsonObject): Promise<void> {
    if (peer.era === "modern") this.#envelope = envelope;
    else await within(INITIALIZED_MS, this.notify("notifications/initialized", {}));
    this.transport.agreed?.(peer);
  }

  /**
   * `what` names the action in errors, such as "calling echo". Resolves with the server's result: an object, not
   * checked further. Rejects with an `UpstreamError` or with `cancelled`.
   */
  send(method: string, params: RequestParams, what: string, options: RequestOptions): Promise<AnyResult> {
    return new Promise((resolve, reject) => {
      const { signal, onProgress, meta, timeoutMs = this.#timeoutMs } = options;
      if (signal?.aborted) return reject(new BerthError("cancelled", what));
      const deadlineAt = clock.now() + timeoutMs;
      // One literal: spreading an object into it would cost more than all of this.
      const call: Call = {
        id: 0,
        json: "",
        params,
        onAbort: undefined,
        method,
        what,
        onProgress,
        signal,
        deadlineAt,
        resolve,
        reject,
      };
      this.#calls.add(call);
      call.params = this.#withMeta(params, meta, onProgress && call.id);
      const json = jsonOf(call.params);
      call.json = `{"jsonrpc":"2.0","id":${call.id},"method":${JSON.stringify(method)},"params":${json}}`;
      this.transport.send(call);
      if (this.#calls.get(call.id) !== call) return;
      if (timeoutMs !== Infinity) this.#ticker.wake();
      if (!signal) return;
      call.onAbort = () => this.#abandon(call, "cancelled", new BerthError("cancelled", what));
      signal.addEventListener("abort", call.onAbort);
    });
  }

  /**
   * Subscribes to a modern server's changes (2026-07-28 `basic/patterns/subscriptions`). Resolves when the server has
   * acknowledged it. A subscription that ends before the connection is renewed.
   */
  async listen(filter: JsonObject, timeoutMs: number): Promise<void> {
    const ended = await this.#listenOnce(filter, timeoutMs);
    void this.#keepListening(filter, timeoutMs, ended);
  }

  /** Resolves when the server has acknowledged it, with a promise of the end of the subscription. */
  async #listenOnce(filter: JsonObject, timeoutMs: number): Promise<{ readonly end: Promise<unknown> }> {
    const what = "listening for changes";
    const stop = new Cancellation();
    const response = this.send("subscriptions/listen", { notifications: filter }, what, {
      timeoutMs: Infinity,
      signal: stop,
    }).then(() => "over" as const);
    const acknowledged = new Promise<"agreed">((resolve) => (this.#inbox.onAcknowledged = () => resolve("agreed")));
    const answer = await within(timeoutMs, Promise.race([response, acknowledged]));
    const end = response.catch(() => {});
    if (answer === "agreed") return { end };
    stop.abort();
    if (answer === "over") throw protocolError(what, "it does not start");
    throw new UpstreamError("upstream_timeout", what);
  }

  async #keepListening(
    filter: JsonObject,
    timeoutMs: number,
    first: { readonly end: Promise<unknown> },
  ): Promise<void> {
    let waitMs = RELISTEN_MS;
    for (let { end } = first; !this.#isClosed;) {
      const startedAt = clock.now();
      await end;
      waitMs = clock.now() - startedAt > RELISTEN_MAX_MS ? RELISTEN_MS : Math.min(2 * waitMs, RELISTEN_MAX_MS);
      await new Promise<void>((resolve) => void clock.after(waitMs, resolve).unref());
      if (this.#isClosed) return;
      try {
        ({ end } = await this.#listenOnce(filter, timeoutMs));
        this.missed();
      } catch {
        // It may succeed the next time.
        end = Promise.resolve();
      }
    }
  }

  missed(): void {
    this.#onNotification?.("notifications/tools/list_changed", {});
  }

  /** Sends a notification. Resolves once the server has received it, or never will. */
  notify(method: string, params: JsonObject): Promise<void> {
    const completed = this.#withMeta(params, undefined, undefined);
    return this.transport.notify(JSON.stringify({ jsonrpc: "2.0", method, params: completed }));
  }

  #withMeta(params: RequestParams, meta: JsonObject | undefined, progressToken: number | undefined): RequestParams {
    const envelope = this.#envelope;
    if (!envelope && !meta && progressToken === undefined) return params;
    return { ...params, _meta: { ...envelope, ...meta, ...(progressToken !== undefined && { progressToken }) } };
  }

  message(message: UpstreamMessage, request?: OutgoingRequest): boolean {
    this.received++;
    if (!("method" in message)) {
      const call = this.#callFor(message, request);
      if (call) this.#settle(call, message);
      return call !== undefined;
    }
    if (message.method === PROGRESS) this.#reportProgress(readParams(message));
    else this.#passOn(message);
    return false;
  }

  /**
   * An answer that names no request is for the request whose response it arrived in, or else for the only one that it
   * can be for: a late answer must not reach another caller.
   */
  #callFor(message: AnswerMessage, request: OutgoingRequest | undefined): Call | undefined {
    const id = requestNumber(message);
    const named = id === undefined ? undefined : this.#calls.get(id);
    const isOther = typeof message.id === "string" || typeof message.id === "number";
    if (named || isOther || (!request && this.#hasAbandoned)) return named;
    const [only, ...others] = request ? [this.#calls.get(request.id)] : this.#calls.all();
    if (!only || others.length > 0) return undefined;
    this.deviate("answers without the id of the request");
    return only;
  }

  failed({ id }: OutgoingRequest, failure: Failure): void {
    const call = this.#calls.get(id);
    if (call) this.#fail(call, failure(call.what));
  }

  /** An exception of a listener must not end this process from within an event of a socket. */
  #passOn(message: RequestMessage): void {
    try {
      this.#inbox.handle(message);
    } catch {
      // The message is dropped.
    }
  }

  #settle(call: Call, message: AnswerMessage): void {
    const outcome = readOutcome(call.method, message, this.deviate);
    if ("result" in outcome) {
      this.#forget(call, true);
      call.resolve(outcome.result as AnyResult);
    } else if ("error" in outcome) this.#fail(call, refusedByServer(call.what, outcome.error), true);
    else {
      this.deviate(outcome.fault.replace(/^it answered/, "answers"));
      this.#fail(call, protocolError(call.what, outcome.fault), true);
    }
  }

  #reportProgress({ progressToken, progress, total, message }: JsonObject): void {
    const { onProgress } = this.#calls.get(Number(progressToken)) ?? {};
    if (!onProgress || typeof progress !== "number") return;
    try {
      onProgress({
        progress,
        ...(typeof total === "number" && { total }),
        ...(typeof message === "string" && { message }),
      });
    } catch {
      // Progress is optional, so the error is ignored.
    }
  }

  #abandon(call: Call, reason: string, error: BerthError): void {
    if (this.#calls.get(call.id) !== call) return;
    this.#hasAbandoned = true;
    this.#fail(call, error);
    if (!this.transport.cancelsByClosing) void this.notify("notifications/cancelled", { requestId: call.id, reason });
  }

  #sweep(now: number): boolean {
    let watched = false;
    for (const call of this.#calls.all()) {
      if (now >= call.deadlineAt) {
        const detail = `${call.what} (${limitVariable("upstreamCallMs")})`;
        this.#abandon(call, "it takes too long", new UpstreamError("upstream_timeout", detail));
      } else watched ||= call.deadlineAt !== Infinity;
    }
    return watched;
  }

  #fail(call: Call, error: BerthError, isAnswered = false): void {
    this.#forget(call, isAnswered);
    call.reject(error);
  }

  #forget(call: Call, isAnswered: boolean): void {
    this.#calls.remove(call);
    this.transport.forget(call, isAnswered);
    if (call.onAbort) call.signal?.removeEventListener("abort", call.onAbort);
  }
}

export interface Opened {
  readonly channel: RpcChannel;
  readonly peer: Peer;
}

/** Arguments as JSON text may also be in `_meta`. */
function jsonOf(params: RequestParams): string {
  const { arguments: long } = params;
  if (!(long instanceof JsonText)) return JSON.stringify(params);
  const mark = randomUUID();
  const around = JSON.stringify(params, (_, value: unknown) => (value instanceof JsonText ? mark : value));
  return around.replaceAll(`"${mark}"`, () => long.text);
}

const PROGRESS = "notifications/progress";
const INTERNAL_ERROR = -32603;
/** How long a server may take to accept `notifications/initialized`. */
const INITIALIZED_MS = 2_000;
const RELISTEN_MS = 500;
const RELISTEN_MAX_MS = 60_000;

interface Call extends OutgoingRequest {
  id: number;
  json: string;
  params: RequestParams;
  onAbort: (() => void) | undefined;
  readonly what: string;
  readonly onProgress: RequestOptions["onProgress"];
  readonly signal: CancelSignal | undefined;
  readonly resolve: (result: AnyResult) => void;
  readonly reject: (error: BerthError) => void;
}

/** Unsolicited messages of a server: questions, which are answered here, and notifications. */
class Inbox {
  onAcknowledged = (): void => {};
  readonly #transport: Transport;
  readonly #questions: Questions;
  readonly #openQuestions: OpenQuestions;
  readonly #onNotification: ConnectOptions["onNotification"];
  readonly #open = new Map<MessageId, AbortController>();

  constructor(
    transport: Transport,
    questions: Questions,
    openQuestions: OpenQuestions,
    onNotification: ConnectOptions["onNotification"],
  ) {
    this.#transport = transport;
    this.#questions = questions;
    this.#openQuestions = openQuestions;
    this.#onNotification = onNotification;
    void transport.closed.then(() => this.#cancelAll());
    openQuestions.tooMany.addEventListener("abort", () => void transport.close(openQuestions.fault));
  }

  handle(message: RequestMessage): void {
    if (!this.#openQuestions.admit(message)) return;
    const { method, id } = message;
    const params = readParams(message);
    if (id !== undefined) void this.#answer(id, method, params);
    else if (method === "notifications/cancelled") this.#open.get(params["requestId"] as MessageId)?.abort();
    else if (method === "notifications/subscriptions/acknowledged") this.onAcknowledged();
    else this.#onNotification?.(method, params);
  }

  async #answer(id: MessageId, method: string, params: JsonObject): Promise<void> {
    const stop = new AbortController();
    this.#open.set(id, stop);
    const answer = await this.#createAnswer(method, params, stop.signal);
    if (this.#open.get(id) === stop) this.#open.delete(id);
    // A cancelled question gets no answer.
    if (stop.signal.aborted) return;
    this.#openQuestions.answering(id, this.#transport.answer(JSON.stringify({ jsonrpc: "2.0", id, ...answer })));
  }

  async #createAnswer(method: string, params: JsonObject, signal: AbortSignal): Promise<object> {
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

type RpcOptions = Pick<ConnectOptions, "limits" | "onNotification" | "onDeviation">;
