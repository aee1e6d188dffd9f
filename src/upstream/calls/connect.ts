import { setTimeout as after } from "node:timers/promises";
import { BerthError } from "../../lib/errors.ts";
import { within } from "../../lib/within.ts";
import { limitVariable } from "../../limits/limits.ts";
import { buildAddress, buildCommand } from "../launch/command.ts";
import type { Launch, ProgramLaunch } from "../launch/launch.ts";
import { UpstreamError } from "../messages/upstream-error.ts";
import type { ConnectOptions, Peer } from "../transport/channel.ts";
import { aborted, type Child, startChild } from "../transport/child.ts";
import { discover, requestMeta, handshakeBounds, initialize } from "../transport/handshake.ts";
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
      ? await openRemote(launch, buildAddress(launch, options), options, questions)
      : await openProgram(launch, options, questions);
  return new UpstreamConnection(channel, peer, questions, options);
}

/**
 * Starts a program, unless it is already started, and completes the handshake in the era that it supports, within the
 * limit `upstreamStartMs`. On failure, nothing is left running.
 */
async function openProgram(launch: ProgramLaunch, options: ConnectOptions, questions: Questions): Promise<Opened> {
  const { limits, start, makeFolder, long, rooms } = options;
  const timeout = AbortSignal.timeout(limits.upstreamStartMs);
  const signal = options.signal ? AbortSignal.any([options.signal, timeout]) : timeout;
  const startOne = (): Promise<Child> =>
    startChild(buildCommand(launch, options), { limits, start, makeFolder, long, rooms, signal });
  let child: Child | undefined;
  try {
    child = await (options.started ?? startOne());
    let channel = channelTo(child, options, questions);
    let peer = await handshake(channel, child, launch.era, options, signal);
    if (!peer && !launch.era && !signal.aborted && !(await isLauncherFailure(child))) {
      // Some servers exit on anything that precedes `initialize`: they get a second start, with the legacy handshake.
      child = await startOne();
      channel = channelTo(child, options, questions);
      peer = await legacyHandshake(channel, child, options, signal);
    }
    if (!peer) throw await startError(launch, child, timeout, options);
    await channel.completeHandshake(peer, requestMeta(options));
    return { channel, peer };
  } catch (error) {
    const why = error instanceof BerthError ? error : await startError(launch, child, timeout, options, error as Error);
    await child?.end();
    throw why;
  }
}

function channelTo(child: Child, options: ConnectOptions, questions: Questions): RpcChannel {
  return new RpcChannel(new StdioTransport(child), options, questions, new OpenQuestions());
}

/** Undefined if the server is gone or the time is over. */
async function handshake(
  channel: RpcChannel,
  child: Child,
  era: Launch["era"],
  options: ConnectOptions,
  signal: AbortSignal,
): Promise<Peer | undefined> {
  if (era === "legacy") return legacyHandshake(channel, child, options, signal);
  const answer = discover(channel, options, HANDSHAKE).catch(gone);
  const silence = new AbortController();
  const probe = after(handshakeBounds.upstreamProbeMs, "silent" as const, { signal: silence.signal }).catch(gone);
  const silent = era ? answer : probe;
  const result: Peer | "silent" | "gone" | undefined = await Promise.race([
    answer,
    silent,
    aborted(signal, "gone" as const),
  ]);
  silence.abort();
  if (result === "gone") return undefined;
  if (result === undefined && era) throw new Error("it does not support the era in its launcher URI (era=modern)");
  if (result === undefined) return legacyHandshake(channel, child, options, signal);
  if (result !== "silent") return result;

  // Silence may mean a long installation, or a legacy server that answers nothing before `initialize`. It gets both
  // requests now; a server of both eras answers the modern one first, since it was sent first.
  const legacy = legacyHandshake(channel, child, options, signal);
  legacy.catch(gone);
  const modern = answer.then((peer) => (typeof peer === "object" ? peer : legacy));
  return Promise.race([legacy, modern]);
}

async function legacyHandshake(
  channel: RpcChannel,
  child: Child,
  options: ConnectOptions,
  signal: AbortSignal,
): Promise<Peer | undefined> {
  try {
    const peer = await Promise.race([initialize(channel, options, HANDSHAKE), aborted(signal, "gone" as const)]);
    return peer === "gone" ? undefined : peer;
  } catch (error) {
    if (signal.aborted || (await within(EXIT_REPORT_MS, child.ended))) return undefined;
    throw error;
  }
}

/** The delay between a closing pipe and the report that the process has ended. */
const EXIT_REPORT_MS = 300;

/** npm reports this if the package does not exist or cannot be reached: another start would fail as well. */
async function isLauncherFailure(child: Child): Promise<boolean> {
  const { stderr } = await child.ended;
  return /^npm (?:error|ERR!)/m.test(stderr);
}

async function startError(
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
      `${name} did not complete the handshake within ${seconds} s (${limitVariable("upstreamStartMs")})${garbage}`,
      { stderr },
    );
  }
  if (cause !== undefined || !child) {
    return new UpstreamError("upstream_not_started", `${name}: ${cause?.message}${garbage}`, { stderr, cause });
  }
  const end = await child.ended;
  const [, folder] = INTERRUPTED_INSTALL.exec(end.stderr) ?? [];
  const hint =
    folder === undefined
      ? ""
      : `: an earlier installation was interrupted, and npm does not repair it; remove the folder _npx/${folder} from npm's cache (see "npm config get cache"), and start it again`;
  return new UpstreamError("upstream_not_started", `${name} ${end.reason}${hint}${garbage}`, { stderr: end.stderr });
}

/** npm's message about a folder that an interrupted npx left with packages but without a list of them. */
const INTERRUPTED_INSTALL = /^npm (?:error|ERR!) path .*[\\/]_npx[\\/]([0-9a-f]{16})[\\/]package\.json$/m;

function gone(): "gone" {
  return "gone";
}

const HANDSHAKE = "the handshake";
