import {
  Client,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  SSEClientTransport,
  StreamableHTTPClientTransport,
  ProtocolError,
  type FetchLike,
  type StandardSchemaV1,
  type Tool,
} from "@modelcontextprotocol/client";
import { headerMarks } from "../contract/parameter-headers.ts";
import { toAbortSignal, type CancelSignal } from "../lib/cancellation.ts";
import { cutText } from "../lib/cut-text.ts";
import { BerthError, type ErrorCode } from "../lib/errors.ts";
import { isObject, JsonText, type JsonObject, type JsonSchema } from "../lib/json.ts";
import { type Limits, limitVariable } from "../limits/limits.ts";
import { boundedFetch } from "./bounded-fetch.ts";
import { LongResults, setResultsAside, LongArguments, disguised } from "./bypass.ts";
import type { Channel, Closed, ConnectOptions, Opened, Peer } from "./channel.ts";
import { Exchanges, Resumption } from "./exchanges.ts";
import { Inflow } from "./inflow.ts";
import type { RemoteLaunch } from "./launch.ts";
import type { ListedTool } from "./lists.ts";
import type { LongReader } from "./long-answers.ts";
import { OpenQuestions, type Questions } from "./questions.ts";
import type { RequestOptions, RequestParams } from "./request.ts";
import type { AnyResult, UpstreamResult } from "./results.ts";
import { requestBounds } from "./supervisor.ts";
import { UpstreamError, refusedByServer, shortError } from "./upstream-error.ts";

interface RemoteAddress {
  readonly url: URL;
  readonly headers: Record<string, string>;
}

/**
 * Remote servers, by the official client, which knows the rules of HTTP in each era: Streamable HTTP in either; HTTP+SSE
 * of 2024-11-05 for servers that know neither. Importing this file loads the client, which takes as long as many a
 * server's own start.
 */
export async function openRemote(
  { name, era }: RemoteLaunch,
  { url, headers }: RemoteAddress,
  options: ConnectOptions,
  questions: Questions,
): Promise<Opened> {
  const { limits } = options;
  const { upstreamStartMs, upstreamMessageBytes } = limits;
  const { upstreamRequests } = requestBounds;
  const timeout = AbortSignal.timeout(upstreamStartMs);
  const inflow = new Inflow();
  const asked = new OpenQuestions(inflow);
  const signal = AbortSignal.any([timeout, asked.tooMany, ...(options.signal ? [options.signal] : [])]);
  const aside = {
    results: new LongResults(options.rooms?.unfinished),
    arguments: new LongArguments(),
    reader: options.long,
  };
  const elsewhere = options.long && { long: options.long, results: aside.results };
  const reading = {
    messageBytes: upstreamMessageBytes,
    inflow,
    elsewhere,
    room: options.rooms?.unfinished,
  };
  const resumption = new Resumption(RESUMES_PER_SECOND, upstreamRequests);
  const fetchIt = fillingIn(aside.arguments, resumption.paced(boundedFetch(reading, options.fetch)));
  const requestInit = { headers };
  const what = `reaching ${name}`;
  const failed = (error: unknown): BerthError => {
    if (options.signal?.aborted) return new BerthError("cancelled", what);
    if (asked.tooMany.aborted) return new UpstreamError("upstream_not_started", `${what}: it ${asked.fault}`);
    if (timeout.aborted || isTimeout(error)) {
      return new UpstreamError(
        "upstream_timeout",
        `${what} within ${upstreamStartMs / 1000} s (${limitVariable("upstreamStartMs")})`,
        { cause: error },
      );
    }
    if (error instanceof SdkHttpError) return httpFailure(error, what, "upstream_not_started");
    return new UpstreamError("upstream_not_started", `${what}: ${reachingWords(error, url)}`, { cause: error });
  };

  const streamable = setResultsAside(
    new StreamableHTTPClientTransport(url, {
      requestInit,
      fetch: fetchIt,
      reconnectionScheduler: resumption.schedule,
    }),
    asked,
    new Exchanges(upstreamRequests),
  );
  const client = newClient(options, questions);
  client.setVersionNegotiation({ mode: era === "modern" ? { pin: MODERN_VERSION } : (era ?? "auto") });
  try {
    await within(client.connect(streamable, { signal, timeout: upstreamStartMs }), signal);
    return { channel: new RemoteChannel(client, aside, limits, asked, streamable), peer: peerOf(client) };
  } catch (error) {
    await client.close().catch(() => {});
    if (signal.aborted || era === "modern" || !isOlderServer(error)) throw failed(error);
    const older = newClient(options, questions);
    const events = setResultsAside(
      new SSEClientTransport(url, { requestInit, fetch: withFewPosts(fetchIt, upstreamRequests) }),
      asked,
      new Exchanges(upstreamRequests),
    );
    try {
      await within(older.connect(events, { signal, timeout: upstreamStartMs }), signal);
      return { channel: new RemoteChannel(older, aside, limits, asked), peer: peerOf(older) };
    } catch {
      await older.close().catch(() => {});
      // The first error is more useful: hardly any server speaks HTTP+SSE alone.
      throw failed(error);
    }
  }
}

function newClient({ clientInfo, capabilities, onNotification }: ConnectOptions, questions: Questions): Client {
  const client = new Client(clientInfo, { capabilities: capabilities ?? {}, inputRequired: { autoFulfill: false } });
  client.fallbackRequestHandler = ({ method, params }, { mcpReq }) =>
    questions.answer({ method, params: (params ?? {}) as JsonObject }, mcpReq.signal);
  if (onNotification) {
    client.fallbackNotificationHandler = ({ method, params }) => {
      onNotification(method, (params ?? {}) as JsonObject);
      return Promise.resolve();
    };
  }
  return client;
}

function fillingIn(args: LongArguments, fetchIt: FetchLike): FetchLike {
  return (url, init) =>
    fetchIt(url, typeof init?.body === "string" ? { ...init, body: args.filledIn(init.body) } : init);
}

/**
 * In HTTP+SSE a POST is only accepted, and answered by the stream. If more than `max` are not accepted yet, the oldest
 * is aborted: its sender may be long gone, and the transport is not told.
 */
function withFewPosts(fetchIt: FetchLike, max: number): FetchLike {
  const open = new Set<AbortController>();
  return async (url, init) => {
    if (init?.method !== "POST") return fetchIt(url, init);
    const post = new AbortController();
    open.add(post);
    const [oldest] = open;
    if (open.size > max) oldest!.abort(new Error("the server does not read what it is sent"));
    try {
      const signal = AbortSignal.any([post.signal, ...(init.signal ? [init.signal] : [])]);
      const response = await fetchIt(url, { ...init, signal });
      const text = await response.text();
      return new Response(text === "" ? null : text, response);
    } finally {
      open.delete(post);
    }
  };
}

/** The specification's test for a server of HTTP+SSE: it accepts no POST at this address. */
function isOlderServer(error: unknown): boolean {
  return error instanceof SdkHttpError && [400, 404, 405].includes(error.data.status);
}

function isTimeout(error: unknown): boolean {
  return error instanceof SdkError && error.code === SdkErrorCode.RequestTimeout;
}

function within<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  work.catch(() => {});
  return Promise.race([
    work,
    new Promise<never>((_resolve, reject) => {
      const give = (): void => reject(signal.reason as Error);
      if (signal.aborted) give();
      signal.addEventListener("abort", give, { once: true });
    }),
  ]);
}

function peerOf(client: Client): Peer {
  const [instructions, serverInfo] = [client.getInstructions(), client.getServerVersion()];
  return {
    era: client.getProtocolEra() ?? "legacy",
    protocolVersion: client.getNegotiatedProtocolVersion() ?? "",
    capabilities: (client.getServerCapabilities() ?? {}) as JsonObject,
    ...(instructions !== undefined && { instructions }),
    ...(serverInfo && { serverInfo: { name: serverInfo.name, version: serverInfo.version } }),
  };
}

const MODERN_VERSION = "2026-07-28";
/** Event streams of one connection that are opened per second; others wait. */
const RESUMES_PER_SECOND = 20;
/** How long a server may take to accept the goodbye. */
const FAREWELL_MS = 1000;

/** Accepts any result from an upstream; it is checked where it is used. */
const anyResult: StandardSchemaV1<unknown, UpstreamResult> = {
  "~standard": {
    version: 1,
    vendor: "berth",
    validate: (value) => (isObject(value) ? { value } : { issues: [{ message: "the result is not an object" }] }),
  },
};

/** The parts of messages that bypass the client. */
interface Aside {
  readonly results: LongResults;
  readonly arguments: LongArguments;
  /** Without a reader no message counts as long. */
  readonly reader: LongReader | undefined;
}

/** A connection of the official client. */
class RemoteChannel implements Channel {
  readonly transport = "http";
  readonly closed: Promise<Closed>;
  heard = 0;
  readonly #client: Client;
  readonly #aside: Aside;
  readonly #timeoutMs: number;
  readonly #streamable: StreamableHTTPClientTransport | undefined;
  /** Tools with arguments that also go into headers (modern servers). */
  readonly #headerTools = new Map<string, Tool>();
  /** Why no more requests can be sent. */
  #end = "the connection was closed";
  #tellClosed: (closed: Closed) => void = () => {};
  #isExpected = false;
  #fault: string | undefined;

  constructor(
    client: Client,
    aside: Aside,
    { upstreamCallMs }: Pick<Limits, "upstreamCallMs">,
    asked: OpenQuestions,
    streamable?: StreamableHTTPClientTransport,
  ) {
    this.#client = client;
    this.#aside = aside;
    this.#timeoutMs = upstreamCallMs;
    this.#streamable = streamable;
    this.closed = new Promise((resolve) => (this.#tellClosed = resolve));
    void this.closed.then(({ reason }) => (this.#end = `it ${reason}`));
    void this.closed.then(() => aside.results.clear());
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- the client has no other way
    client.onclose = () => this.#ended("closed the connection");
    asked.tooMany.addEventListener("abort", () => void this.close(asked.fault).catch(() => {}));
  }

  async send(method: string, given: RequestParams, what: string, options: RequestOptions): Promise<AnyResult> {
    const { arguments: args } = given;
    const { meta } = options;
    const all = meta ? { ...given, _meta: meta } : given;
    if (!(args instanceof JsonText)) return this.#send(method, all, what, options);
    const { params, forget } = this.#aside.arguments.keep(all, await this.#headed(given["name"], args));
    try {
      return await this.#send(method, params, what, options);
    } finally {
      forget();
    }
  }

  async #send(
    method: string,
    params: Record<string, unknown>,
    what: string,
    { signal, onProgress, timeoutMs = this.#timeoutMs }: RequestOptions,
  ): Promise<AnyResult> {
    const definition = method === "tools/call" ? this.#headerTools.get(params["name"] as string) : undefined;
    const options = {
      timeout: Math.min(timeoutMs, LONGEST_MS),
      allowInputRequired: true,
      ...(signal && { signal: toAbortSignal(signal) }),
      ...(onProgress && { onprogress: onProgress }),
    };
    try {
      if (definition) {
        const called = {
          ...(await this.#client.callTool(params as never, { ...options, toolDefinition: definition })),
        };
        this.heard++;
        return this.#aside.results.take(called);
      }
      const answer = await this.#client.request({ method: disguised(method), params }, anyResult, options);
      this.heard++;
      return this.#aside.results.take(answer);
    } catch (error) {
      const failure = failureOf(error, what, signal, this.#end);
      if (failure.code === "upstream_refused") this.heard++;
      throw failure;
    }
  }

  /** The members of long arguments that go into headers. */
  async #headed(tool: unknown, args: JsonText): Promise<object> {
    const definition = this.#headerTools.get(tool as string);
    if (!definition) return {};
    const paths = headerMarks(definition.inputSchema as JsonSchema).map(({ path }) => path);
    const headed = plain();
    for (const [at, value] of (await this.#aside.reader!.scalars(args, paths)).entries()) {
      if (value === undefined) continue;
      const path = paths[at]!;
      let place = headed;
      for (const name of path.slice(0, -1)) place = (place[name] ??= plain()) as typeof headed;
      place[path.at(-1)!] = value;
    }
    return headed;
  }

  noteTools(tools: readonly ListedTool[]): void {
    this.#headerTools.clear();
    if (this.#client.getProtocolEra() !== "modern") return;
    for (const { name, inputSchema } of tools) {
      if (!JSON.stringify(inputSchema).includes('"x-mcp-header"')) continue;
      this.#headerTools.set(name, { name, inputSchema } as Tool);
    }
  }

  /** True when the server misses a header that repeats an argument. */
  needsTools(error: unknown, tool: string): boolean {
    return error instanceof UpstreamError && error.data?.["rpc"] === HEADER_MISMATCH && !this.#headerTools.has(tool);
  }

  async listen(filter: JsonObject, timeoutMs: number): Promise<void> {
    try {
      await this.#client.listen(filter, { timeout: timeoutMs });
    } catch (error) {
      throw failureOf(error, "listening for changes", undefined, this.#end);
    }
  }

  async close(fault?: string): Promise<void> {
    this.#isExpected = true;
    this.#fault ??= fault;
    if (this.#streamable?.sessionId !== undefined) {
      const farewell = this.#streamable.terminateSession().catch(() => {});
      await Promise.race([farewell, new Promise((resolve) => setTimeout(resolve, FAREWELL_MS).unref())]);
    }
    await this.#client.close();
    this.#ended("was left");
  }

  #ended(reason: string): void {
    const fault = this.#fault;
    this.#tellClosed({ reason: fault ?? reason, stderr: "", expected: this.#isExpected && fault === undefined });
  }
}

/** An object on which any name is an own property. */
const plain = (): Record<string, unknown> => Object.create(null) as Record<string, unknown>;

const HEADER_MISMATCH = -32020;
/** The longest time of a timer. */
const LONGEST_MS = 2 ** 31 - 1;

/** The client's error for one request, in Berth's words. */
function failureOf(error: unknown, what: string, signal: CancelSignal | undefined, ended: string): BerthError {
  if (error instanceof BerthError) return error;
  if (signal?.aborted) return new BerthError("cancelled", what, { cause: error });
  if (error instanceof ProtocolError) return refusedByServer(what, error, error);
  if (error instanceof SdkHttpError) return httpFailure(error, what);
  if (error instanceof SdkError) {
    switch (error.code) {
      case SdkErrorCode.RequestTimeout:
        return new UpstreamError("upstream_timeout", `${what} (${limitVariable("upstreamCallMs")})`, { cause: error });
      case SdkErrorCode.ConnectionClosed:
      case SdkErrorCode.NotConnected:
      case SdkErrorCode.SendFailed:
        return new UpstreamError("upstream_ended", `${what}: ${ended}`, { cause: error });
      default:
        return new UpstreamError("upstream_protocol", `${what}: ${error.message}`, { cause: error });
    }
  }
  const message = error instanceof Error ? wordsOf(error) : String(error);
  if (message === "Not connected") {
    return new UpstreamError("upstream_ended", `${what}: ${ended}`, { cause: error });
  }
  // It did not break the protocol: nobody was reached, or the connection broke.
  const code = systemCodeOf(error) === undefined ? "upstream_protocol" : "upstream_not_started";
  return new UpstreamError(code, `${what}: ${message}`, { cause: error });
}

/** The code by which the system says why there is no connection. */
function systemCodeOf(error: unknown): string | undefined {
  const codes = causesOf(error).flatMap(({ code }) => (typeof code === "string" ? [code] : []));
  return codes.find((code) => SYSTEM_CODE.test(code));
}

/** The causes say more than `fetch failed`. */
function wordsOf(error: unknown): string {
  const words: string[] = [];
  for (const { message } of causesOf(error)) {
    if (message !== "" && !words.some((known) => known.includes(message))) words.push(message);
  }
  return (words.length > 1 ? words.filter((each) => each !== "fetch failed") : words).join(": ");
}

/** An error, and what caused it. Of several tries, the first. */
function causesOf(error: unknown): (Error & { readonly code?: unknown })[] {
  const causes: Error[] = [];
  for (let at = error; at instanceof Error; at = at instanceof AggregateError ? at.errors[0] : at.cause)
    causes.push(at);
  return causes;
}

/** Why no connection came about, and what a person can do. The client's own words are of its version negotiation. */
function reachingWords(error: unknown, { protocol, host, hostname }: URL): string {
  const isOfNegotiation = error instanceof SdkError && error.code === SdkErrorCode.EraNegotiationFailed;
  const cause = isOfNegotiation ? (error.cause ?? error) : error;
  const code = systemCodeOf(cause);
  switch (code) {
    case "ECONNREFUSED":
      return `nothing listens at ${host} (${code}); start the server there, or correct its address`;
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return `the host ${hostname} cannot be found (${code}); correct its name, or see to the name service of this machine`;
    case "ETIMEDOUT":
    case "EHOSTUNREACH":
    case "ENETUNREACH":
    case "UND_ERR_CONNECT_TIMEOUT":
      return `${host} does not answer (${code}); correct its address, or see to the way there: a firewall, a VPN, a proxy`;
    case "EPROTO":
    case "ERR_SSL_WRONG_VERSION_NUMBER":
      return `${host} does not speak TLS there (${code}); is its address one of http, not https?`;
    case "ECONNRESET":
    case "EPIPE":
    case "UND_ERR_SOCKET": {
      const advice =
        protocol === "http:" ? "is its address one of https, and is it an MCP server?" : "is it an MCP server?";
      return `${host} closed the connection and answered nothing (${code}); ${advice}`;
    }
    default: {
      if (cause instanceof ProtocolError) return `it refused: ${shortError(cause).message} (${cause.code})`;
      const form = formOf(cause);
      return form === undefined ? wordsOf(cause) : `it answers with ${form}, not as an MCP server; is the path right?`;
    }
  }
}

/** The codes of sockets, name look-ups, TLS, and undici; the client has codes of its own. */
const SYSTEM_CODE = /^(?:E[A-Z_]+|UND_ERR_[A-Z_]+)$/;

/** The form of a successful answer that the client cannot read; undefined for any other error. */
function formOf(error: unknown): string | undefined {
  if (error instanceof SdkError && error.code === SdkErrorCode.ClientHttpUnexpectedContent) {
    const { contentType } = error.data as { readonly contentType?: string | null };
    return contentType ? cutText(contentType, TYPE_UNITS_MAX) : "no Content-Type";
  }
  if (error instanceof SyntaxError) return "broken JSON";
  return error instanceof Error && error.name === "ZodError" ? "other JSON" : undefined;
}

/** In UTF-16 units. */
const TYPE_UNITS_MAX = 100;

/** Why a connection over HTTP fails, and what a person can do. */
function httpFailure(error: SdkHttpError, what: string, code: ErrorCode = "upstream_refused"): UpstreamError {
  const { status, statusText } = error.data;
  const advice =
    status === 401 || status === 403
      ? "; give a token as header.Authorization=Bearer%20${TOKEN}"
      : status === 404 || status === 405
        ? "; is the path right?"
        : "";
  const said = `HTTP ${status}${statusText ? ` ${statusText}` : ""}`;
  return new UpstreamError(code, `${what}: ${said}${advice}`, { data: { status }, cause: error });
}
