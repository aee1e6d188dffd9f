import { closeSync, openSync } from "node:fs";
import { devNull } from "node:os";
import { setTimeout as after } from "node:timers/promises";
import { BerthError } from "../lib/errors.ts";
import { isObject, type JsonObject } from "../lib/json.ts";
import { within } from "../lib/within.ts";
import { fixed } from "../limits/fixed.ts";
import { limitVariable } from "../limits/limits.ts";
import type { ConnectOptions, Opened, Peer } from "./channel.ts";
import { aborted, type Child, startChild } from "./child.ts";
import { addressOf, commandOf } from "./command.ts";
import { UpstreamConnection } from "./connection.ts";
import type { Launch, ProgramLaunch, RemoteLaunch } from "./launch.ts";
import { Pipe } from "./pipe.ts";
import { Questions } from "./questions.ts";
import { isText, shortResult, type UpstreamResult } from "./results.ts";
import { UpstreamError } from "./upstream-error.ts";

/** Time after which an upstream that does not answer the modern handshake also gets the legacy one. */
const bounds = fixed({ upstreamProbeMs: 10_000 });

/**
 * Starts or reaches the server and agrees on a revision, the modern era first. Throws `launcher_invalid`,
 * `upstream_not_started` (with the end of stderr), `upstream_timeout`, `upstream_refused` or `cancelled`, and then
 * leaves nothing running.
 */
export async function connectUpstream(launch: Launch, options: ConnectOptions): Promise<UpstreamConnection> {
  const questions = new Questions(options.ask);
  const { channel, peer } =
    "url" in launch ? await loadRemote(launch, options, questions) : await openProgram(launch, options, questions);
  return new UpstreamConnection(channel, peer, options.limits, questions, options.long, options.capabilities);
}

async function loadRemote(launch: RemoteLaunch, options: ConnectOptions, questions: Questions): Promise<Opened> {
  if (!isClientLoaded) needDescriptors();
  const { openRemote } = await import("./remote.ts");
  isClientLoaded = true;
  return openRemote(launch, addressOf(launch, options), options, questions);
}

let isClientLoaded = false;

/**
 * Throws if few descriptors are left: Node never loads a module that it once failed to open, so the client must not be
 * loaded then.
 */
function needDescriptors(): void {
  const held: number[] = [];
  try {
    while (held.length < MODULES_MAX) held.push(openSync(devNull, "r"));
  } finally {
    for (const descriptor of held) closeSync(descriptor);
  }
}

/** Files that Node may have open at once while it loads the client. */
const MODULES_MAX = 128;

/**
 * Starts a program, unless it is already started, and completes the handshake in the era that it understands, within
 * the limit `upstreamStartMs`. If that fails, nothing of it is left.
 */
async function openProgram(launch: ProgramLaunch, options: ConnectOptions, questions: Questions): Promise<Opened> {
  const { limits, start, makeFolder, long, rooms } = options;
  const timeout = AbortSignal.timeout(limits.upstreamStartMs);
  const signal = options.signal ? AbortSignal.any([options.signal, timeout]) : timeout;
  const startOne = (): Promise<Child> =>
    startChild(commandOf(launch, options), { limits, start, makeFolder, long, rooms, signal });
  let child: Child | undefined;
  try {
    child = await (options.started ?? startOne());
    let pipe = new Pipe(child, options, questions);
    let peer = await greet(pipe, launch.era, options, signal);
    if (!peer && !launch.era && !signal.aborted && !(await isLauncherFailure(child))) {
      // Some servers end at anything that comes before `initialize`: they get a second start, with the legacy
      // handshake.
      child = await startOne();
      pipe = new Pipe(child, options, questions);
      peer = await greetLegacy(pipe, options, signal);
    }
    if (!peer) throw await whyNot(launch, child, timeout, options);
    if (peer.era === "modern") pipe.envelope = envelopeOf(options);
    return { channel: pipe, peer };
  } catch (error) {
    const why = error instanceof BerthError ? error : await whyNot(launch, child, timeout, options, error as Error);
    await child?.end();
    throw why;
  }
}

/** Undefined if the server is gone or the time is over. */
async function greet(
  pipe: Pipe,
  era: Launch["era"],
  options: ConnectOptions,
  signal: AbortSignal,
): Promise<Peer | undefined> {
  if (era === "legacy") return greetLegacy(pipe, options, signal);
  const answer = discover(pipe, options).catch(gone);
  const silence = new AbortController();
  const probe = after(bounds.upstreamProbeMs, "silent" as const, { signal: silence.signal }).catch(gone);
  const silent = era ? answer : probe;
  const hello: Peer | "silent" | "gone" | undefined = await Promise.race([
    answer,
    silent,
    aborted(signal, "gone" as const),
  ]);
  silence.abort();
  if (hello === "gone") return undefined;
  if (hello === undefined && era) throw new Error("it does not know the era that its launcher URI gives (era=modern)");
  if (hello === undefined) return greetLegacy(pipe, options, signal);
  if (hello !== "silent") return hello;

  // Silence may be a long installation, or a legacy server that answers nothing before `initialize`. It gets both
  // requests now; the modern one was sent first, so that a server that knows both eras answers it first.
  const legacy = greetLegacy(pipe, options, signal);
  legacy.catch(gone);
  const modern = answer.then((peer) => (typeof peer === "object" ? peer : legacy));
  return Promise.race([legacy, modern]);
}

/** Undefined if the server ends before it answers, or the time is over. */
async function greetLegacy(pipe: Pipe, options: ConnectOptions, signal: AbortSignal): Promise<Peer | undefined> {
  const { child } = pipe;
  try {
    const peer = await Promise.race([initialize(pipe, options), aborted(signal, "gone" as const)]);
    return peer === "gone" ? undefined : peer;
  } catch (error) {
    if (signal.aborted || (await endsSoon(child))) return undefined;
    throw error;
  }
}

/** The delay between a closing pipe and the report that the process has ended. */
const END_IS_TOLD_MS = 300;

async function endsSoon(child: Child): Promise<boolean> {
  return (await within(END_IS_TOLD_MS, child.ended)) !== undefined;
}

/** npm says so if the package does not exist or cannot be reached: another start would fail the same way. */
async function isLauncherFailure(child: Child): Promise<boolean> {
  const { stderr } = await child.ended;
  return /^npm (?:error|ERR!)/m.test(stderr);
}

async function whyNot(
  { name }: ProgramLaunch,
  child: Child | undefined,
  timeout: AbortSignal,
  { limits, signal }: ConnectOptions,
  cause?: Error,
): Promise<BerthError> {
  if (signal?.aborted) return new BerthError("cancelled", `starting ${name}`);
  const seconds = limits.upstreamStartMs / 1000;
  const { garbage: printed = "", stderr = "" } = child ?? {};
  const garbage = printed === "" ? "" : `; it wrote "${printed}" to stdout, which is not a message`;
  if (timeout.aborted) {
    return new UpstreamError(
      "upstream_timeout",
      `${name} did not say hello within ${seconds} s (${limitVariable("upstreamStartMs")})${garbage}`,
      { stderr },
    );
  }
  if (cause !== undefined || !child) {
    return new UpstreamError("upstream_not_started", `${name}: ${cause?.message}${garbage}`, { stderr, cause });
  }
  const end = await child.ended;
  const [, folder] = CUT_OFF.exec(end.stderr) ?? [];
  const remedy =
    folder === undefined
      ? ""
      : `: an earlier installation was interrupted, and npm does not repair it; remove the folder _npx/${folder} from npm's cache (see "npm config get cache"), and start it again`;
  return new UpstreamError("upstream_not_started", `${name} ${end.reason}${remedy}${garbage}`, { stderr: end.stderr });
}

/** npm's message when npx left a folder that has packages and no list of them. */
const CUT_OFF = /^npm (?:error|ERR!) path .*[\\/]_npx[\\/]([0-9a-f]{16})[\\/]package\.json$/m;

function gone(): "gone" {
  return "gone";
}

type Identity = Pick<ConnectOptions, "clientInfo" | "capabilities">;

const MODERN_VERSION = "2026-07-28";
/** Revisions that begin with `initialize`, the preferred one first. */
const LEGACY_VERSIONS: readonly unknown[] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"];
const SERVER_INFO = "io.modelcontextprotocol/serverInfo";

/**
 * The modern handshake. Resolves with undefined if the server is not of that era, and rejects with `upstream_ended` if
 * it has gone. It may never be answered: a server may spend minutes on its installation.
 */
export async function discover(pipe: Pipe, identity: Identity): Promise<Peer | undefined> {
  try {
    const params = { _meta: envelopeOf(identity) };
    const answer = await pipe.send("server/discover", params, WHAT, { timeoutMs: Infinity });
    return readDiscovery(shortResult(WHAT, answer));
  } catch (error) {
    if (error instanceof UpstreamError && error.code === "upstream_refused") return undefined;
    throw error;
  }
}

/**
 * The legacy handshake, which must not be cancelled. Rejects if the server is gone, refuses it, or answers nonsense.
 */
export async function initialize(pipe: Pipe, { clientInfo, capabilities = {} }: Identity): Promise<Peer> {
  const params = { protocolVersion: LEGACY_VERSIONS[0] as string, capabilities, clientInfo: { ...clientInfo } };
  const answered = pipe.send("initialize", params, WHAT, { timeoutMs: Infinity });
  const peer = readInitialized(shortResult(WHAT, await answered.catch(sayRefusal)));
  pipe.notify("notifications/initialized", {});
  return peer;
}

function sayRefusal(error: unknown): never {
  if (!(error instanceof UpstreamError) || error.code !== "upstream_refused") throw error;
  const { message, rpc } = error.data ?? {};
  throw new Error(`it refuses to say hello: ${String(message)} (${String(rpc)})`, { cause: error });
}

/** The `_meta` that a modern server expects with each message (2026-07-28 `basic`). */
export function envelopeOf({ clientInfo, capabilities = {} }: Identity): JsonObject {
  return {
    "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
    "io.modelcontextprotocol/clientInfo": { ...clientInfo },
    "io.modelcontextprotocol/clientCapabilities": capabilities,
  };
}

const WHAT = "saying hello";

function readDiscovery({ supportedVersions, capabilities, instructions, _meta }: UpstreamResult): Peer | undefined {
  if (!Array.isArray(supportedVersions) || !supportedVersions.includes(MODERN_VERSION)) return undefined;
  if (!isObject(capabilities)) return undefined;
  const said = { capabilities, instructions, serverInfo: isObject(_meta) ? _meta[SERVER_INFO] : undefined };
  return { era: "modern", protocolVersion: MODERN_VERSION, ...readSaid(said) };
}

function readInitialized(result: UpstreamResult): Peer {
  const { protocolVersion, capabilities } = result;
  if (!isText(protocolVersion) || !LEGACY_VERSIONS.includes(protocolVersion)) {
    const shown = isText(protocolVersion) ? `"${protocolVersion}"` : "none";
    throw new Error(`it speaks a revision that Berth does not know: ${shown}`);
  }
  if (!isObject(capabilities)) throw new Error("its hello names no capabilities");
  return { era: "legacy", protocolVersion, ...readSaid(result) };
}

function readSaid({ capabilities, instructions, serverInfo }: UpstreamResult): Omit<Peer, "era" | "protocolVersion"> {
  const { name, version } = isObject(serverInfo) ? serverInfo : {};
  return {
    capabilities: capabilities as JsonObject,
    ...(isText(instructions) && { instructions }),
    ...(isText(name) && isText(version) && { serverInfo: { name, version } }),
  };
}
