import { setTimeout as after } from "node:timers/promises";
import { BerthError } from "../lib/errors.ts";
import { startChild, type Child } from "./child.ts";
import { commandOf } from "./command.ts";
import type { ConnectOptions } from "./connect.ts";
import type { Peer } from "./channel.ts";
import { discover, envelopeOf, initialize } from "./hello.ts";
import type { ProgramLaunch } from "./launch.ts";
import { OpenQuestions, type Questions } from "./questions.ts";
import { PipeInbox, PipeRequests } from "./pipe.ts";
import { UpstreamError } from "./upstream-error.ts";
import { within } from "./within.ts";

/** A server whose handshake is complete, and the connection to it. */
export interface Greeted {
  readonly peer: Peer;
  readonly requests: PipeRequests;
  readonly inbox: PipeInbox;
}

/**
 * Starts a program, unless it is already started, and completes the handshake in the era that it understands, within
 * the limit `upstreamStartMs`. If that fails, nothing of it is left.
 */
export async function greetChild(
  launch: ProgramLaunch,
  options: ConnectOptions,
  questions: Questions,
): Promise<Greeted> {
  const { limits, start, makeFolder, long, rooms } = options;
  const timeout = AbortSignal.timeout(limits.upstreamStartMs);
  const signal = options.signal ? AbortSignal.any([options.signal, timeout]) : timeout;
  const startOne = (): Promise<Child> =>
    startChild(commandOf(launch, options), { limits, start, makeFolder, long, rooms, signal });
  const pipeOf = (child: Child): Omit<Greeted, "peer"> => {
    const requests = new PipeRequests(child, limits.upstreamCallMs);
    const asked = new OpenQuestions(limits.upstreamQuestions);
    return { requests, inbox: new PipeInbox(requests, questions, asked, options.onNotification) };
  };
  let child: Child | undefined;
  try {
    child = await (options.started ?? startOne());
    let pipe = pipeOf(child);
    let peer = await greet(pipe.requests, options, signal);
    if (!peer && !signal.aborted && !(await isLauncherFailure(child))) {
      // Some servers end at anything that comes before `initialize`: they get a second start, with the legacy
      // handshake.
      child = await startOne();
      pipe = pipeOf(child);
      peer = await greetLegacy(pipe.requests, options, signal);
    }
    if (!peer) throw await whyNot(launch, child, timeout, options);
    if (peer.era === "modern") pipe.requests.envelope = envelopeOf(options);
    return { peer, ...pipe };
  } catch (error) {
    const why = error instanceof BerthError ? error : await whyNot(launch, child, timeout, options, error as Error);
    await child?.end();
    throw why;
  }
}

/** Undefined if the server is gone or the time is over. */
async function greet(requests: PipeRequests, options: ConnectOptions, signal: AbortSignal): Promise<Peer | undefined> {
  const answer = discover(requests, options).catch(gone);
  const silence = new AbortController();
  const silent = after(options.limits.upstreamProbeMs, "silent" as const, { signal: silence.signal }).catch(gone);
  const hello: Peer | "silent" | "gone" | undefined = await Promise.race([answer, silent, aborted(signal)]);
  silence.abort();
  if (hello === "gone") return undefined;
  if (hello === undefined) return greetLegacy(requests, options, signal);
  if (hello !== "silent") return hello;

  // Silence may be a long installation, or a legacy server that answers nothing before `initialize`. It gets both
  // requests now; the modern one was sent first, so that a server that knows both eras answers it first.
  const legacy = greetLegacy(requests, options, signal);
  legacy.catch(gone);
  const modern = answer.then((peer) => (typeof peer === "object" ? peer : legacy));
  return Promise.race([legacy, modern]);
}

/** Undefined if the server ends before it answers, or the time is over. */
async function greetLegacy(
  requests: PipeRequests,
  options: ConnectOptions,
  signal: AbortSignal,
): Promise<Peer | undefined> {
  const { child } = requests;
  try {
    const peer = await Promise.race([initialize(requests, options), aborted(signal)]);
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
  const garbage = printed === "" ? "" : `; on stdout came "${printed}", which is no message`;
  if (timeout.aborted) {
    return new UpstreamError("upstream_timeout", `${name} did not say hello within ${seconds} s${garbage}`, { stderr });
  }
  if (cause !== undefined || !child) {
    return new UpstreamError("upstream_not_started", `${name}: ${cause?.message}${garbage}`, { stderr, cause });
  }
  const end = await child.ended;
  const [, folder] = CUT_OFF.exec(end.stderr) ?? [];
  const remedy =
    folder === undefined
      ? ""
      : `: an installation of it was cut off, and npm does not mend that; remove the folder _npx/${folder} from npm's cache ("npm config get cache" says where that is), and start it again`;
  return new UpstreamError("upstream_not_started", `${name} ${end.reason}${remedy}${garbage}`, { stderr: end.stderr });
}

/** npm's message when npx left a folder that has packages and no list of them. */
const CUT_OFF = /^npm (?:error|ERR!) path .*[\\/]_npx[\\/]([0-9a-f]{16})[\\/]package\.json$/m;

function aborted(signal: AbortSignal): Promise<"gone"> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve("gone");
    signal.addEventListener("abort", () => resolve("gone"), { once: true });
  });
}

function gone(): "gone" {
  return "gone";
}
