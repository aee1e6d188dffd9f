import {
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  SSEClientTransport,
  StreamableHTTPClientTransport,
  type Client,
  type FetchLike,
} from "@modelcontextprotocol/client";
import { BerthError } from "../lib/errors.ts";
import type { JsonObject } from "../lib/json.ts";
import { boundedFetch } from "./bounded-fetch.ts";
import { ClientRequests, type Aside } from "./client-requests.ts";
import type { ConnectOptions } from "./connect.ts";
import type { Channel, Closed, Peer } from "./channel.ts";
import { failureOf, httpFailure, wordsOf } from "./failures.ts";
import { Inflow } from "./inflow.ts";
import type { RemoteLaunch } from "./launch.ts";
import { OpenQuestions } from "./open-questions.ts";
import { LongArguments } from "./long-arguments.ts";
import { Exchanges } from "./exchanges.ts";
import { Resumption } from "./resumption.ts";
import { LongResults, setResultsAside } from "./bypass.ts";
import { UpstreamError } from "./upstream-error.ts";

export interface RemoteAddress {
  readonly url: URL;
  readonly headers: Record<string, string>;
}

/** Streamable HTTP in either era; HTTP+SSE of 2024-11-05 for servers that know neither. */
export async function openByHttp(
  { name }: RemoteLaunch,
  { url, headers }: RemoteAddress,
  newClient: () => Client,
  options: ConnectOptions,
): Promise<Channel> {
  const { limits } = options;
  const { upstreamStartMs, upstreamMessageBytes, batchMessages, upstreamRequests } = limits;
  const timeout = AbortSignal.timeout(upstreamStartMs);
  const inflow = new Inflow(limits.upstreamNotificationsPerSecond);
  const questions = new OpenQuestions(limits.upstreamQuestions, inflow);
  const signal = AbortSignal.any([timeout, questions.tooMany, ...(options.signal ? [options.signal] : [])]);
  const aside = {
    results: new LongResults(options.rooms?.unfinished),
    arguments: new LongArguments(),
    reader: options.long,
  };
  const elsewhere = options.long && { long: options.long, results: aside.results };
  const reading = {
    messageBytes: upstreamMessageBytes,
    batchMessages,
    inflow,
    elsewhere,
    room: options.rooms?.unfinished,
  };
  const resumption = new Resumption(limits.upstreamResumesPerSecond, upstreamRequests);
  const fetchIt = fillingIn(aside.arguments, resumption.paced(boundedFetch(reading, options.fetch)));
  const requestInit = { headers };
  const what = `reaching ${name}`;
  const failed = (error: unknown): BerthError => {
    if (options.signal?.aborted) return new BerthError("cancelled", what);
    if (questions.tooMany.aborted) return new UpstreamError("upstream_not_started", `${what}: it ${questions.fault}`);
    if (timeout.aborted || isTimeout(error)) {
      return new UpstreamError("upstream_timeout", `${what} within ${upstreamStartMs / 1000} s`, { cause: error });
    }
    if (error instanceof SdkHttpError) return httpFailure(error, what, "upstream_not_started");
    return new UpstreamError("upstream_not_started", `${what}: ${wordsOf(error)}`, { cause: error });
  };

  const streamable = setResultsAside(
    new StreamableHTTPClientTransport(url, {
      requestInit,
      fetch: fetchIt,
      reconnectionScheduler: resumption.schedule,
    }),
    questions,
    new Exchanges(upstreamRequests),
  );
  const client = newClient();
  client.setVersionNegotiation({ mode: "auto" });
  try {
    await within(client.connect(streamable, { signal, timeout: upstreamStartMs }), signal);
    return channelOf(client, aside, limits, questions, streamable);
  } catch (error) {
    await client.close().catch(() => {});
    if (signal.aborted || !isOlderServer(error)) throw failed(error);
    const older = newClient();
    const events = setResultsAside(
      new SSEClientTransport(url, { requestInit, fetch: withFewPosts(fetchIt, upstreamRequests) }),
      questions,
      new Exchanges(upstreamRequests),
    );
    try {
      await within(older.connect(events, { signal, timeout: upstreamStartMs }), signal);
      return channelOf(older, aside, limits, questions);
    } catch {
      await older.close().catch(() => {});
      // The first error is more useful: hardly any server speaks HTTP+SSE alone.
      throw failed(error);
    }
  }
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
    if (open.size > max) oldest!.abort(new Error("the server does not take what it is sent"));
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

function channelOf(
  client: Client,
  aside: Aside,
  { upstreamCallMs }: ConnectOptions["limits"],
  asked: OpenQuestions,
  streamable?: StreamableHTTPClientTransport,
): Channel {
  const requests = new ClientRequests(client, upstreamCallMs, aside);
  let tell: (closed: Closed) => void = () => {};
  let expected = false;
  let fault: string | undefined;
  const closed = new Promise<Closed>((resolve) => (tell = resolve));
  void closed.then(({ reason }) => (requests.ended = `it ${reason}`));
  void closed.then(() => aside.results.clear());
  const ended = (reason: string): void =>
    tell({ reason: fault ?? reason, stderr: "", expected: expected && fault === undefined });
  // oxlint-disable-next-line unicorn/prefer-add-event-listener -- the client has no other way
  client.onclose = () => ended("closed the connection");
  const close = async (why?: string): Promise<void> => {
    expected = true;
    fault ??= why;
    if (streamable?.sessionId !== undefined) {
      const farewell = streamable.terminateSession().catch(() => {});
      await Promise.race([farewell, new Promise((resolve) => setTimeout(resolve, FAREWELL_MS).unref())]);
    }
    await client.close();
    ended("was left");
  };
  asked.tooMany.addEventListener("abort", () => void close(asked.fault).catch(() => {}));
  return {
    transport: "http",
    peer: peerOf(client),
    requests,
    listen: async (filter, timeoutMs) => {
      try {
        await client.listen(filter, { timeout: timeoutMs });
      } catch (error) {
        throw failureOf(error, "listening for changes", undefined, requests.ended);
      }
    },
    closed,
    close,
  };
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

/** How long a server may take to accept the goodbye. */
const FAREWELL_MS = 1000;
