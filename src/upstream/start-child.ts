import {
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  PROTOCOL_VERSION_META_KEY,
  type Client,
  type DiscoverResult,
  type PriorDiscovery,
} from "@modelcontextprotocol/client";
import { setTimeout as after } from "node:timers/promises";
import { BerthError } from "../errors.ts";
import { isObject } from "../json.ts";
import { ChildTransport } from "./child-transport.ts";
import { Child } from "./child.ts";
import type { Command } from "./command.ts";
import type { ConnectOptions } from "./connect.ts";
import type { Channel } from "./connection.ts";
import { UpstreamError } from "./failures.ts";
import type { ProgramLaunch } from "./launch.ts";
import { setResultsAside } from "./results-aside.ts";

const MODERN_VERSION = "2026-07-28";
const PROBE_ID = "berth-discover";

interface Started {
  readonly client: Client;
  readonly channel: Channel;
}

/** What became of the modern hello. */
type Hello = PriorDiscovery | "silent" | "gone";

/** Starts the program, and says hello in the era that it understands, all within the limit `upstreamStartMs`. */
export async function startChild(
  launch: ProgramLaunch,
  command: Command,
  newClient: () => Client,
  options: ConnectOptions,
): Promise<Started> {
  const { upstreamStartMs } = options.limits;
  const timeout = AbortSignal.timeout(upstreamStartMs);
  const signal = options.signal ? AbortSignal.any([options.signal, timeout]) : timeout;
  let child = new Child(command, options.limits);
  try {
    let client = await greet(child, newClient, options, signal);
    if (!client && !signal.aborted && !(await isLauncherFailure(child))) {
      // Some servers end at anything that comes before `initialize`: they get a second start, and the legacy hello.
      child = new Child(command, options.limits);
      client = await connect(child, newClient(), { kind: "legacy" }, signal);
    }
    if (!client) throw await whyNot(launch, child, timeout, options);
    return { client, channel: channelOf(child, client) };
  } catch (error) {
    const why = error instanceof BerthError ? error : await whyNot(launch, child, timeout, options, error);
    await child.end();
    throw why;
  }
}

/** The client that the server understands; undefined when the server is gone or the time is over. */
async function greet(
  child: Child,
  newClient: () => Client,
  options: ConnectOptions,
  signal: AbortSignal,
): Promise<Client | undefined> {
  const late = discover(child, options);
  const silence = new AbortController();
  const silent = after(options.limits.upstreamProbeMs, "silent" as const, { signal: silence.signal }).catch(gone);
  const hello: Hello = await Promise.race([late, silent, child.ended.then(gone), aborted(signal)]);
  silence.abort();
  if (hello === "gone") return undefined;
  if (hello !== "silent") return connect(child, newClient(), hello, signal);

  // Silence may be a long installation, or a legacy server that answers nothing before `initialize`. It gets both
  // hellos now; the first one was sent first, so that a server that knows both eras answers it first.
  const giveUp = new AbortController();
  const legacy = connect(child, newClient(), { kind: "legacy" }, AbortSignal.any([signal, giveUp.signal]), late);
  const first = await Promise.race([legacy, late]);
  if (!first || !("kind" in first) || first.kind === "legacy") return legacy;
  giveUp.abort();
  await legacy.catch(gone);
  return connect(child, newClient(), first, signal);
}

/** Resolves when the modern hello is answered, if ever. */
function discover(child: Child, { clientInfo, capabilities }: ConnectOptions): Promise<PriorDiscovery> {
  return new Promise((resolve) => {
    child.onMessage = (message) => {
      if (!("id" in message) || message.id !== PROBE_ID) return;
      const result = "result" in message ? message.result : undefined;
      resolve(isDiscovery(result) ? { kind: "modern", discover: result } : { kind: "legacy" });
    };
    const _meta = {
      [PROTOCOL_VERSION_META_KEY]: MODERN_VERSION,
      [CLIENT_INFO_META_KEY]: clientInfo,
      [CLIENT_CAPABILITIES_META_KEY]: capabilities ?? {},
    };
    child.send({ jsonrpc: "2.0", id: PROBE_ID, method: "server/discover", params: { _meta } }).catch(() => {});
  });
}

function isDiscovery(result: unknown): result is DiscoverResult {
  if (!isObject(result)) return false;
  const { supportedVersions, capabilities } = result;
  return Array.isArray(supportedVersions) && supportedVersions.includes(MODERN_VERSION) && isObject(capabilities);
}

/** Undefined when the server ends before it answers. `probe`: a hello under way, whose answer is listened for, too. */
async function connect(
  child: Child,
  client: Client,
  prior: PriorDiscovery,
  signal: AbortSignal,
  probe?: Promise<PriorDiscovery>,
): Promise<Client | undefined> {
  const probing = probe && child.onMessage;
  const transport = setResultsAside(new ChildTransport(child));
  const connected = client.connect(transport, { prior, signal, timeout: START_IS_BOUNDED_MS });
  if (probing) {
    const deliver = child.onMessage;
    child.onMessage = (message) => ("id" in message && message.id === PROBE_ID ? probing : deliver)(message);
  }
  const outcome = await Promise.race([connected.then(() => client), child.ended.then(() => undefined)]).catch(
    (error: Error) => error,
  );
  if (!(outcome instanceof Error)) {
    connected.catch(() => {});
    return outcome;
  }
  if (signal.aborted || (await endsSoon(child))) return undefined;
  throw outcome;
}

/** By the signal; the client's own timer must not be the first. */
const START_IS_BOUNDED_MS = 2 ** 31 - 1;

async function endsSoon(child: Child): Promise<boolean> {
  return Promise.race([child.ended.then(() => true), after(100, false)]);
}

function channelOf(child: Child, client: Client): Channel {
  return {
    transport: "stdio",
    closed: child.ended,
    close: async () => {
      const ended = child.end();
      await ended;
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
  cause?: unknown,
): Promise<BerthError> {
  if (signal?.aborted) return new BerthError("cancelled", `starting ${name}`);
  const seconds = limits.upstreamStartMs / 1000;
  const garbage = child.garbage === "" ? "" : `; on stdout came "${child.garbage}", which is no message`;
  const stderr = child.stderr;
  if (timeout.aborted) {
    return new UpstreamError("upstream_timeout", `${name} did not say hello within ${seconds} s${garbage}`, { stderr });
  }
  if (cause !== undefined) {
    const said = (cause as Error).message;
    return new UpstreamError("upstream_not_started", `${name}: ${said}${garbage}`, { stderr, cause });
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
