import { setTimeout as after } from "node:timers/promises";
import { BerthError } from "../../lib/errors.ts";
import { within } from "../../lib/within.ts";
import { limitVariable } from "../../limits/limits.ts";
import { addressOf, commandOf } from "../launch/command.ts";
import type { Launch, ProgramLaunch } from "../launch/launch.ts";
import { UpstreamError } from "../messages/upstream-error.ts";
import type { ConnectOptions, Peer } from "../transport/channel.ts";
import { aborted, type Child, startChild } from "../transport/child.ts";
import { discover, envelopeOf, handshakeBounds, initialize } from "../transport/handshake.ts";
import { OpenQuestions, Questions } from "../transport/questions.ts";
import { openRemote } from "../transport/remote.ts";
import { RpcChannel, type Opened } from "../transport/rpc-channel.ts";
import { StdioTransport } from "../transport/stdio-transport.ts";
import { UpstreamConnection } from "./connection.ts";

/**
 * Starts or reaches the server and agrees on a revision, the modern era first. Throws `launcher_invalid`,
 * `upstream_not_started` (with the end of stderr), `upstream_timeout`, `upstream_refused` or `cancelled`, and then
 * leaves nothing running.
 */
export async function connectUpstream(launch: Launch, options: ConnectOptions): Promise<UpstreamConnection> {
  const questions = new Questions(options.ask);
  const { channel, peer } =
    "url" in launch
      ? await openRemote(launch, addressOf(launch, options), options, questions)
      : await openProgram(launch, options, questions);
  return new UpstreamConnection(channel, peer, questions, options);
}

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
    let channel = channelTo(child, options, questions);
    let peer = await greet(channel, child, launch.era, options, signal);
    if (!peer && !launch.era && !signal.aborted && !(await isLauncherFailure(child))) {
      // Some servers end at anything that comes before `initialize`: they get a second start, with the legacy
      // handshake.
      child = await startOne();
      channel = channelTo(child, options, questions);
      peer = await greetLegacy(channel, child, options, signal);
    }
    if (!peer) throw await whyNot(launch, child, timeout, options);
    await channel.agree(peer, envelopeOf(options));
    return { channel, peer };
  } catch (error) {
    const why = error instanceof BerthError ? error : await whyNot(launch, child, timeout, options, error as Error);
    await child?.end();
    throw why;
  }
}

function channelTo(child: Child, options: ConnectOptions, questions: Questions): RpcChannel {
  return new RpcChannel(new StdioTransport(child), options, questions, new OpenQuestions());
}

/** Undefined if the server is gone or the time is over. */
async function greet(
  channel: RpcChannel,
  child: Child,
  era: Launch["era"],
  options: ConnectOptions,
  signal: AbortSignal,
): Promise<Peer | undefined> {
  if (era === "legacy") return greetLegacy(channel, child, options, signal);
  const answer = discover(channel, options, HELLO).catch(gone);
  const silence = new AbortController();
  const probe = after(handshakeBounds.upstreamProbeMs, "silent" as const, { signal: silence.signal }).catch(gone);
  const silent = era ? answer : probe;
  const hello: Peer | "silent" | "gone" | undefined = await Promise.race([
    answer,
    silent,
    aborted(signal, "gone" as const),
  ]);
  silence.abort();
  if (hello === "gone") return undefined;
  if (hello === undefined && era) throw new Error("it does not know the era that its launcher URI gives (era=modern)");
  if (hello === undefined) return greetLegacy(channel, child, options, signal);
  if (hello !== "silent") return hello;

  // Silence may be a long installation, or a legacy server that answers nothing before `initialize`. It gets both
  // requests now; the modern one was sent first, so that a server that knows both eras answers it first.
  const legacy = greetLegacy(channel, child, options, signal);
  legacy.catch(gone);
  const modern = answer.then((peer) => (typeof peer === "object" ? peer : legacy));
  return Promise.race([legacy, modern]);
}

/** Undefined if the server ends before it answers, or the time is over. */
async function greetLegacy(
  channel: RpcChannel,
  child: Child,
  options: ConnectOptions,
  signal: AbortSignal,
): Promise<Peer | undefined> {
  try {
    const peer = await Promise.race([initialize(channel, options, HELLO), aborted(signal, "gone" as const)]);
    return peer === "gone" ? undefined : peer;
  } catch (error) {
    if (signal.aborted || (await within(END_IS_TOLD_MS, child.ended))) return undefined;
    throw error;
  }
}

/** The delay between a closing pipe and the report that the process has ended. */
const END_IS_TOLD_MS = 300;

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

const HELLO = "the handshake";
