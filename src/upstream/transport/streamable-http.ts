import { headerMarks, NAME_PARAMETERS, scalarsAt, type Scalar } from "../../contract/parameter-headers.ts";
import { clock } from "../../lib/clock.ts";
import { BerthError } from "../../lib/errors.ts";
import type { HttpRequestInit } from "../../lib/http-sender.ts";
import { JsonText, type JsonSchema } from "../../lib/json.ts";
import type { Limits } from "../../limits/limits.ts";
import type { ListedTool } from "../messages/lists.ts";
import type { ReadMessages } from "../messages/message-reader.ts";
import { quoted } from "../messages/messages.ts";
import { connectionEnded, UpstreamError } from "../messages/upstream-error.ts";
import type { Closed, Peer } from "./channel.ts";
import type { StreamEvent } from "./events.ts";
import {
  contentFailure,
  isLoss,
  isSessionLost,
  networkFailure,
  retryAfterSeconds,
  statusFailure,
  type RemoteAddress,
} from "./http-error.ts";
import type { HttpAnswer, HttpLink } from "./http-link.ts";
import { requestBounds, type Failure, type OutgoingRequest, type Receiver, type Transport } from "./transport.ts";

/** An open request, and the stream of its answer. */
interface Exchange {
  readonly stop: AbortController;
  isOver: boolean;
  isStream: boolean;
}

/** Streamable HTTP of both eras (2026-07-28 and 2025-11-25 `basic/transports`). */
export class StreamableHttp implements Transport {
  readonly kind = "http";
  readonly closed: Promise<Closed>;
  readonly stale: Promise<string>;
  readonly #link: HttpLink;
  readonly #address: RemoteAddress;
  readonly #limits: Pick<Limits, "upstreamCallMs">;
  readonly #exchanges = new Map<number, Exchange>();
  readonly #notices = new Set<AbortController>();
  readonly #stop = new AbortController();
  #receiver!: Receiver;
  readonly #era: Peer["era"];
  #version: string | undefined;
  #session: string | undefined;
  /** The schemas of tools with arguments that also go into headers (modern servers). */
  readonly #headerTools = new Map<string, JsonSchema>();
  readonly #scalars: (
    args: JsonText,
    paths: readonly (readonly string[])[],
  ) => Promise<readonly (Scalar | undefined)[]>;
  #becomeStale: (reason: string) => void = () => {};
  #isLost = false;
  /** Answers may arrive on the stream of the session. */
  #isListening = false;
  #end: (closed: Closed) => void = () => {};

  /** Requests of the handshake name the era, and `version`, that they ask for. */
  constructor(
    link: HttpLink,
    address: RemoteAddress,
    limits: Pick<Limits, "upstreamCallMs">,
    era: Peer["era"],
    version: string | undefined,
  ) {
    this.#era = era;
    this.#version = version;
    this.#link = link;
    this.#address = address;
    this.#limits = limits;
    this.closed = new Promise((resolve) => (this.#end = resolve));
    this.stale = new Promise((resolve) => (this.#becomeStale = resolve));
    const { long } = link.options;
    this.#scalars = async (args, paths) => long?.scalars(args, paths) ?? scalarsAt(JSON.parse(args.text), paths);
  }

  set receiver(receiver: Receiver) {
    this.#receiver = receiver;
  }

  get cancelsByClosing(): boolean {
    return this.#era === "modern";
  }

  agreed({ era, protocolVersion }: Peer): void {
    this.#version = protocolVersion;
    if (era === "legacy") void this.#listen();
  }

  send(request: OutgoingRequest): void {
    const exchange = { stop: new AbortController(), isOver: false, isStream: false };
    this.#exchanges.set(request.id, exchange);
    void this.#exchange(request, exchange).catch((error: unknown) => {
      if (exchange.isOver) return;
      this.#receiver.failed(request, networkFailure(error, this.#address));
      if (isLoss(error)) this.#lose("cannot be reached any more");
    });
  }

  forget({ id }: OutgoingRequest, isAnswered: boolean): void {
    const exchange = this.#exchanges.get(id);
    if (!exchange) return;
    this.#exchanges.delete(id);
    exchange.isOver = true;
    // A server may end the stream itself, so that the socket can be reused.
    if (isAnswered && !exchange.isStream) return;
    if (isAnswered) clock.after(ENDING_MS, () => exchange.stop.abort(OVER)).unref();
    else exchange.stop.abort(OVER);
  }

  async notify(json: string): Promise<void> {
    const { upstreamRequests } = requestBounds;
    const notice = new AbortController();
    this.#notices.add(notice);
    const [oldest] = this.#notices;
    if (this.#notices.size > upstreamRequests) oldest!.abort(OVER);
    await this.#discard(this.#post(json, {}, notice.signal));
    this.#notices.delete(notice);
  }

  answer(json: string): Promise<void> {
    return this.#discard(this.#post(json, {}, this.#stop.signal));
  }

  async #discard(sent: Promise<HttpAnswer>): Promise<void> {
    await sent.then(
      (answer) => answer.leave(),
      () => {},
    );
  }

  noteTools(tools: readonly ListedTool[]): void {
    this.#headerTools.clear();
    if (this.#era !== "modern") return;
    for (const { name, inputSchema } of tools) {
      if (headerMarks(inputSchema).length > 0) this.#headerTools.set(name, inputSchema);
    }
  }

  /** True when the server misses a header that repeats an argument. */
  needsTools(error: unknown, tool: string): boolean {
    return error instanceof UpstreamError && error.data?.["rpc"] === HEADER_MISMATCH && !this.#headerTools.has(tool);
  }

  async close(fault?: string): Promise<void> {
    if (this.#session !== undefined && !this.#isLost && !this.#stop.signal.aborted) {
      const farewell = this.#open("DELETE", undefined, {}, AbortSignal.timeout(FAREWELL_MS));
      this.#session = undefined;
      await this.#discard(farewell);
    }
    const reason = fault ?? "was left";
    this.#stop.abort(OVER);
    for (const { stop } of this.#exchanges.values()) stop.abort(connectionEnded("", reason, false));
    for (const notice of this.#notices) notice.abort(OVER);
    this.#end({ reason, stderr: "", expected: fault === undefined });
  }

  /** New requests need another connection; those in progress may still be answered. */
  #lose(reason: string): void {
    if (this.#stop.signal.aborted) return;
    this.#isLost = true;
    this.#becomeStale(reason);
  }

  async #exchange(request: OutgoingRequest, exchange: Exchange): Promise<void> {
    const { signal } = exchange.stop;
    const headers = this.#era === "modern" ? await this.#modernHeaders(request) : {};
    const answer = await this.#postWithRetry(request, headers, signal);
    if (!answer.ok) return this.#refused(request, answer);
    const session = answer.headers.get("mcp-session-id");
    if (request.method === "initialize" && session !== null) this.#session = session;
    if (answer.isStream) return this.#follow(request, exchange, answer);
    // Its answer arrives on the stream of the session.
    if (answer.status === ACCEPTED && this.#isListening) return answer.leave();
    const body = await answer.messages(this.#receiver.deviate);
    if (body.messages.length === 0 && body.fault === undefined) {
      this.#receiver.failed(request, contentFailure(answer, body.text, this.#address));
      return;
    }
    if (answer.type !== "application/json") this.#receiver.deviate(`sends JSON as ${answer.type || "no Content-Type"}`);
    this.#deliver(body, request);
    if (exchange.isOver) return;
    const shown = this.#address.hide(quoted(body.text));
    const fail: Failure = (what) =>
      new UpstreamError("upstream_protocol", `${what}: its response contains only other messages: ${shown}`);
    this.#receiver.failed(request, fail);
  }

  /** Repeats a request that the server asks to send again later, within the deadline of the call. */
  async #postWithRetry(
    request: OutgoingRequest,
    headers: Record<string, string>,
    signal: AbortSignal,
  ): Promise<HttpAnswer> {
    const deadlineAt = Math.min(request.deadlineAt, clock.now() + this.#limits.upstreamCallMs);
    for (;;) {
      const answer = await this.#post(request.json, headers, signal);
      const seconds = LATER.has(answer.status) ? retryAfterSeconds(answer.headers) : undefined;
      if (seconds === undefined || clock.now() + seconds * 1000 >= deadlineAt) return answer;
      answer.leave();
      await wait(Math.max(seconds * 1000, RESUME_MS), signal);
    }
  }

  async #refused(request: OutgoingRequest, answer: HttpAnswer): Promise<void> {
    const body = await answer.beginning();
    if (this.#session !== undefined && isSessionLost(answer.status, body)) {
      this.#receiver.failed(request, (what) => connectionEnded(what, LOST_SESSION, true));
      return this.#lose(LOST_SESSION);
    }
    this.#receiver.failed(request, statusFailure(answer, body, this.#address));
  }

  /** Reads the stream of a request, and reopens it if it ends before the answer and the server supports that. */
  async #follow(request: OutgoingRequest, exchange: Exchange, first: HttpAnswer): Promise<void> {
    const { signal } = exchange.stop;
    let answer = first;
    exchange.isStream = true;
    for (;;) {
      const { lastId, retryMs, error, text } = await this.#read(answer, request);
      if (exchange.isOver) return;
      signal.throwIfAborted();
      if (error instanceof BerthError) throw error;
      if (error !== undefined) this.#receiver.missed();
      if (lastId === undefined) throw streamEnd(error, text);
      await wait(retryMs ?? RESUME_MS, signal);
      answer = await this.#open("GET", undefined, { accept: EVENT_STREAM, "last-event-id": lastId }, signal);
      if (!answer.ok || !answer.isStream) {
        answer.leave();
        throw streamEnd(error, text);
      }
    }
  }

  /** The stream of a legacy session for unsolicited messages; not every server has one. */
  async #listen(): Promise<void> {
    const { signal } = this.#stop;
    let from: string | undefined;
    let isFirst = true;
    for (let waitMs = RESUME_MS; !signal.aborted;) {
      try {
        const headers = { accept: EVENT_STREAM, ...(from !== undefined && { "last-event-id": from }) };
        const answer = await this.#open("GET", undefined, headers, signal);
        if (!answer.ok || !answer.isStream) {
          const body = await answer.beginning();
          // A server without such a stream may answer with 404, too.
          if (!isFirst && isSessionLost(answer.status, body)) this.#lose(LOST_SESSION);
          return;
        }
        if (!isFirst && from === undefined) this.#receiver.missed();
        isFirst = false;
        const openedAt = clock.now();
        this.#isListening = true;
        const { lastId, retryMs } = await this.#read(answer);
        this.#isListening = false;
        from = lastId ?? from;
        waitMs = clock.now() - openedAt > LASTED_MS ? RESUME_MS : Math.min(2 * waitMs, RESUME_MAX_MS);
        waitMs = Math.max(waitMs, retryMs ?? 0);
        await wait(waitMs, signal);
      } catch (error) {
        if (isLoss(error) && !signal.aborted) this.#lose("cut its stream and cannot be reached");
        return;
      }
    }
  }

  async #read(answer: HttpAnswer, request?: OutgoingRequest): Promise<StreamEnd> {
    let lastId: string | undefined;
    let retryMs: number | undefined;
    let text: string | undefined;
    try {
      for await (const event of answer.events(this.#receiver.deviate)) {
        lastId = event.id ?? lastId;
        retryMs = event.retryMs ?? retryMs;
        if (event.messages.length === 0 && event.data !== "") text = quoted(event.data);
        this.#deliver(event, request);
      }
      return { lastId, retryMs, text };
    } catch (error) {
      return { lastId, retryMs, text, error };
    }
  }

  #deliver({ messages, fault }: ReadMessages | StreamEvent, request: OutgoingRequest | undefined): void {
    if (fault !== undefined) throw new UpstreamError("upstream_protocol", `it ${fault}`);
    for (const message of messages) this.#receiver.message(message, request);
  }

  #post(json: string, headers: Record<string, string>, signal: AbortSignal): Promise<HttpAnswer> {
    const types = { "content-type": "application/json", accept: `application/json, ${EVENT_STREAM}` };
    return this.#open("POST", json, { ...types, ...headers }, signal);
  }

  #open(
    method: HttpRequestInit["method"] & string,
    body: string | undefined,
    extra: Record<string, string>,
    signal: AbortSignal,
  ): Promise<HttpAnswer> {
    const headers: Record<string, string> = { ...this.#address.headers, ...extra };
    if (this.#version !== undefined) headers["mcp-protocol-version"] = this.#version;
    if (this.#session !== undefined) headers["mcp-session-id"] = this.#session;
    return this.#link.open(this.#address.url, { method, headers, signal, ...(body !== undefined && { body }) });
  }

  /** 2026-07-28 `basic/transports/streamable-http`, "Standard Headers" and "Custom Headers from Tool Parameters". */
  async #modernHeaders({ method, params }: OutgoingRequest): Promise<Record<string, string>> {
    const name = params[NAME_PARAMETERS.get(method) ?? ""];
    const headers: Record<string, string> = { "mcp-method": method };
    if (typeof name === "string") headers["mcp-name"] = headerValue(name);
    const schema = method === "tools/call" ? this.#headerTools.get(name as string) : undefined;
    if (!schema) return headers;
    const { arguments: args } = params;
    const marks = headerMarks(schema);
    const paths = marks.map(({ path }) => path);
    const values = args instanceof JsonText ? await this.#scalars(args, paths) : scalarsAt(args, paths);
    for (const [at, value] of values.entries()) {
      if (value !== undefined) headers[marks[at]!.header] = headerValue(String(value));
    }
    return headers;
  }
}

interface StreamEnd {
  readonly lastId: string | undefined;
  readonly retryMs: number | undefined;
  /** The last event that is not a message. */
  readonly text: string | undefined;
  readonly error?: unknown;
}

function streamEnd(cause: unknown, text: string | undefined): UpstreamError {
  const last = text === undefined ? "" : `, after ${text}`;
  const detail = `its stream ${cause === undefined ? "ended" : "was cut"} before the answer${last}`;
  return new UpstreamError("upstream_ended", detail, { cause });
}

function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = clock.after(ms, () => {
      signal.removeEventListener("abort", stop);
      resolve();
    });
    const stop = (): void => {
      timer.clear();
      reject(signal.reason as Error);
    };
    timer.unref();
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
}

/** Values outside of visible ASCII are sent as base64, and so are values that look like it. */
function headerValue(value: string): string {
  const isPlain =
    /^[\u0021-\u007E](?:[\u0020-\u007E]*[\u0021-\u007E])?$/.test(value) && !/^=\?base64\?.*\?=$/.test(value);
  return isPlain || value === "" ? value : `=?base64?${Buffer.from(value).toString("base64")}?=`;
}

const EVENT_STREAM = "text/event-stream";
const ACCEPTED = 202;
const HEADER_MISMATCH = -32020;
const LOST_SESSION = "has lost the session";
/** Statuses that ask to repeat the request later. */
const LATER = new Set([429, 503]);
/** Created once: an error for each request would cost more than ending it. */
const OVER = new Error("the request is over");
/** How long an answered request's stream may stay open. */
const ENDING_MS = 1_000;
/** How long a server may take to accept the end of its session. */
const FAREWELL_MS = 1_000;
/** The delay before a stream is reopened, so that no server makes a client reconnect without pause. */
const RESUME_MS = 1_000;
const RESUME_MAX_MS = 30_000;
const LASTED_MS = 10_000;
