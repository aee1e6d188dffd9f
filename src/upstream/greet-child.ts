import type { Client, DiscoverResult, PriorDiscovery } from "@modelcontextprotocol/client";
import { setTimeout as after } from "node:timers/promises";
import { BerthError } from "../errors.ts";
import { isObject, type JsonObject } from "../json.ts";
import { ChildTransport } from "./child-transport.ts";
import type { Child } from "./child.ts";
import type { ConnectOptions } from "./connect.ts";
import type { Channel } from "./connection.ts";
import type { ProgramLaunch } from "./launch.ts";
import { PipeRequests } from "./pipe-requests.ts";
import { UpstreamError } from "./upstream-error.ts";

const MODERN_VERSION = "2026-07-28";

type NewClient = () => Promise<Client>;

/** What became of the modern hello. */
type Hello = PriorDiscovery | "silent" | "gone";

/**
 * Says hello to a child that was just started, in the era that it understands, within the limit `upstreamStartMs`.
 * Where that fails the child has ended.
 */
export async function greetChild(
  launch: ProgramLaunch,
  started: Child,
  newClient: NewClient,
  options: ConnectOptions,
): Promise<{ readonly client: Client; readonly channel: Channel }> {
  const timeout = AbortSignal.timeout(options.limits.upstreamStartMs);
  const signal = options.signal ? AbortSignal.any([options.signal, timeout]) : timeout;
  const { upstreamCallMs } = options.limits;
  let requests = new PipeRequests(started, upstreamCallMs);
  try {
    let client = await greet(requests, newClient, options, signal);
    if (!client && !signal.aborted && !(await isLauncherFailure(started))) {
      // Some servers end at anything that comes before `initialize`: they get a second start, and the legacy hello.
      requests = new PipeRequests(started.again(), upstreamCallMs);
      client = await connect(requests, newClient, { kind: "legacy" }, signal);
    }
    if (!client) throw await whyNot(launch, requests.child, timeout, options);
    if (client.getProtocolEra() === "modern") requests.envelope = envelopeOf(options);
    return { client, channel: channelOf(requests, client) };
  } catch (error) {
    const { child } = requests;
    const why = error instanceof BerthError ? error : await whyNot(launch, child, timeout, options, error as Error);
    await child.end();
    throw why;
  }
}

/** The client that the server understands; undefined when the server is gone or the time is over. */
async function greet(
  requests: PipeRequests,
  newClient: NewClient,
  options: ConnectOptions,
  signal: AbortSignal,
): Promise<Client | undefined> {
  const answer = discover(requests, options);
  const silence = new AbortController();
  const silent = after(options.limits.upstreamProbeMs, "silent" as const, { signal: silence.signal }).catch(gone);
  const hello: Hello = await Promise.race([answer, silent, requests.child.ended.then(gone), aborted(signal)]);
  silence.abort();
  if (hello === "gone") return undefined;
  if (hello !== "silent") return connect(requests, newClient, hello, signal);

  // Silence may be a long installation, or a legacy server that answers nothing before `initialize`. It gets both
  // hellos now; the first one was sent first, so that a server that knows both eras answers it first.
  const giveUp = new AbortController();
  const legacy = connect(requests, newClient, { kind: "legacy" }, AbortSignal.any([signal, giveUp.signal]));
  const first = await Promise.race([legacy, answer]);
  if (!first || !("kind" in first) || first.kind === "legacy") return legacy;
  giveUp.abort();
  await legacy.catch(gone);
  return connect(requests, newClient, first, signal);
}

/** Resolves when the modern hello is answered, if ever: the server may be at its installation for minutes. */
function discover(requests: PipeRequests, options: ConnectOptions): Promise<PriorDiscovery> {
  const params = { _meta: envelopeOf(options) };
  const hello = requests.send("server/discover", params, "saying hello", { timeoutMs: Infinity });
  return hello.then(
    (result) => (isDiscovery(result) ? { kind: "modern", discover: result } : { kind: "legacy" }),
    (error: unknown) => {
      if (error instanceof UpstreamError && error.code === "upstream_refused") return { kind: "legacy" };
      return new Promise<never>(() => {});
    },
  );
}

/** What a modern server wants to know with each message (2026-07-28 `basic`). */
function envelopeOf({ clientInfo, capabilities = {} }: ConnectOptions): JsonObject {
  return {
    "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
    "io.modelcontextprotocol/clientInfo": clientInfo,
    "io.modelcontextprotocol/clientCapabilities": capabilities,
  };
}

function isDiscovery(result: unknown): result is DiscoverResult {
  if (!isObject(result)) return false;
  const { supportedVersions, capabilities } = result;
  return Array.isArray(supportedVersions) && supportedVersions.includes(MODERN_VERSION) && isObject(capabilities);
}

/** Undefined when the server ends before it answers, or the time is over. */
async function connect(
  requests: PipeRequests,
  newClient: NewClient,
  prior: PriorDiscovery,
  signal: AbortSignal,
): Promise<Client | undefined> {
  const client = await newClient();
  const { child } = requests;
  const connected = client
    .connect(new ChildTransport(requests), { prior, signal, timeout: START_IS_BOUNDED_MS })
    .then(() => client);
  const outcome = await Promise.race([connected, child.ended.then(() => undefined)]).catch((error: Error) => error);
  if (!(outcome instanceof Error)) {
    connected.catch(() => {});
    return outcome;
  }
  if (signal.aborted || (await endsSoon(child))) return undefined;
  throw outcome;
}

/** By the signal; the client's own timer must not be the first. */
const START_IS_BOUNDED_MS = 2 ** 31 - 1;
/** Between a pipe that closes and the news of the end. */
const END_IS_TOLD_MS = 100;

async function endsSoon(child: Child): Promise<boolean> {
  return Promise.race([child.ended.then(() => true), after(END_IS_TOLD_MS, false)]);
}

function channelOf(requests: PipeRequests, client: Client): Channel {
  const { child } = requests;
  return {
    transport: "stdio",
    requests,
    closed: child.ended,
    close: async () => {
      await child.end();
      await client.close();
    },
  };
}

/** npm says so when there is no such package, or no way to it: another start would fail the same way. */
async function isLauncherFailure(child: Child): Promise<boolean> {
  const { startError, stderr } = await child.ended;
  return startError !== undefined || /^npm (?:error|ERR!)/m.test(stderr);
}

async function whyNot(
  { name }: ProgramLaunch,
  child: Child,
  timeout: AbortSignal,
  { limits, signal }: ConnectOptions,
  cause?: Error,
): Promise<BerthError> {
  if (signal?.aborted) return new BerthError("cancelled", `starting ${name}`);
  const seconds = limits.upstreamStartMs / 1000;
  const garbage = child.garbage === "" ? "" : `; on stdout came "${child.garbage}", which is no message`;
  const { stderr } = child;
  if (timeout.aborted) {
    return new UpstreamError("upstream_timeout", `${name} did not say hello within ${seconds} s${garbage}`, { stderr });
  }
  if (cause !== undefined) {
    return new UpstreamError("upstream_not_started", `${name}: ${cause.message}${garbage}`, { stderr, cause });
  }
  const end = await child.ended;
  return new UpstreamError("upstream_not_started", `${name} ${end.reason}${garbage}`, { stderr: end.stderr });
}

function aborted(signal: AbortSignal): Promise<"gone"> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve("gone");
    signal.addEventListener("abort", () => resolve("gone"), { once: true });
  });
}

function gone(): "gone" {
  return "gone";
}
