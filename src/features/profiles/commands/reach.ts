import { isatty } from "node:tty";
import { tokenIfOwn } from "../../../commands/own-berth.ts";
import { progressLine } from "../../../commands/progress.ts";
import { packageVersion, readConfig } from "../../../config.ts";
import type { HttpSender } from "../../../lib/http-sender.ts";
import { printable, printableJson } from "../../../lib/printable.ts";
import { type Limits, limitVariable } from "../../../limits/limits.ts";
import { connectUpstream } from "../../../upstream/calls/connect.ts";
import type { UpstreamConnection } from "../../../upstream/calls/connection.ts";
import type { Launch, VariableLookup } from "../../../upstream/launch/launch.ts";
import type { Operation } from "../../../upstream/launch/operation.ts";
import type { Ask } from "../../../upstream/messages/request.ts";
import { hostedCapabilities } from "../../../upstream/transport/questions.ts";
import type { Profile } from "../profile.ts";
import { resolveReference, type ServerReference } from "../reference.ts";
import { CallClock } from "./call-clock.ts";
import { exitCodes, failureFields, printFailure, usageFailure } from "./failure.ts";
import { Interruption } from "./interruption.ts";
import { ReaderGone } from "./output.ts";
import type { Ahead } from "./start-ahead.ts";

/** Options of every command that reaches an upstream. */
export interface ReachOptions {
  /** The timeout of one call, read or list, in seconds. */
  readonly timeout?: string;
  /** The timeout of a start in seconds, including a first installation. */
  readonly startTimeout?: string;
  /** Uses a profile even if its server has changed (J6). */
  readonly ignoreSchema?: boolean;
  /** Reaches this profile's server without comparing contracts. */
  readonly profile?: Profile;
  /** Prints to stderr what was reached, and the server's output and notifications. */
  readonly verbose?: boolean;
  /**
   * The person at the terminal answers questions. Only for commands that call: a server may offer something else to
   * clients that can answer, and comparisons of it must not depend on a terminal.
   */
  readonly attended?: boolean;
  /** Connects as a hosting Berth does: as a client that can answer all kinds of questions. */
  readonly hosted?: boolean;
}

export interface Reached {
  readonly upstream: UpstreamConnection;
  readonly reference: ServerReference;
  readonly operation: Operation;
  /** Aborted by Ctrl-C and similar signals. */
  readonly signal: AbortSignal;
  /** Shows progress on a terminal. */
  readonly progress: (text: string) => void;
  /** Asks the person at the terminal; undefined without a terminal. */
  readonly ask: Ask | undefined;
  readonly clock: CallClock;
  readonly limits: Limits;
}

let begun: Ahead | undefined;

/** Registers a server that the process has started, for the command that will use it. */
export function beginWith(ahead: Ahead | undefined): void {
  begun = ahead;
}

/** Slower starts are shown on a terminal. */
const SHOWN_AFTER_MS = 1000;

/**
 * Opens what `text` names, does the work, and always closes it again: no child process outlives the command. Returns
 * the exit code; an error is one JSON object on stderr.
 */
export async function reach(
  text: string,
  options: ReachOptions,
  work: (reached: Reached) => Promise<number>,
): Promise<number> {
  const interrupted = begun?.interruption ?? new Interruption();
  const line = isatty(2) ? progressLine(process.stderr) : { update() {}, end() {} };
  const clock = new CallClock();
  const person =
    options.attended && isatty(0)
      ? (await import("../../../commands/terminal.ts")).personAtTerminal(clock, interrupted.signal, () => line.end())
      : undefined;
  const ask = person?.ask;
  try {
    const reference = await referenceOf(text, options);
    const { limits } = readConfig({ ...process.env, ...limitsOf(options) });
    const upstream = await open(reference, { ...options, limits, ask }, interrupted.signal, line);
    try {
      await reference.check?.(upstream);
      const { operation } = reference;
      const progress = (said: string): void => line.update(said);
      return await work({ upstream, reference, operation, signal: interrupted.signal, progress, ask, clock, limits });
    } finally {
      line.end();
      await upstream.close();
      if (options.verbose) tell({ closed: await upstream.closed });
    }
  } catch (error) {
    line.end();
    if (interrupted.exitCode !== undefined) return interrupted.exitCode;
    if (error instanceof ReaderGone) return exitCodes.ok;
    const failure = failureFields(error);
    printFailure(failure);
    return failure.exitCode;
  } finally {
    person?.close();
    interrupted.close();
  }
}

/** Loads profiles only if one is named: most references are URIs, and profiles need much code for contracts. */
async function referenceOf(text: string, { ignoreSchema, profile }: ReachOptions): Promise<ServerReference> {
  const { env } = process;
  if (profile) {
    const { profileLaunch } = await import("../launch.ts");
    return { launch: profileLaunch(profile, env), operation: { arguments: { texts: [], json: {} } } };
  }
  const warn = (warning: string): void => void process.stderr.write(`${printable(warning)}\n`);
  return resolveReference(text, async (named) => {
    const { profileResolver } = await import("../resolve.ts");
    return profileResolver({ env, folder: process.cwd(), warn, ...(ignoreSchema && { ignoreSchema }) })(named);
  });
}

let sender: Promise<HttpSender> | undefined;

/** Loads the HTTP client only for remote servers. */
const send: HttpSender = async (url, init) => {
  sender ??= import("../../../network/public-fetch.ts").then(({ openSender }) => openSender());
  return (await sender)(url, init);
};

async function open(
  { launch: named }: ServerReference,
  options: ReachOptions & { readonly limits: Limits; readonly ask: Ask | undefined },
  signal: AbortSignal,
  line: { update(text: string): void; end(): void },
): Promise<UpstreamConnection> {
  const { limits, ask } = options;
  const { launch, variable } = withOwnToken(named);
  const started = performance.now();
  const installs = launch.launcher === "npx" || launch.launcher === "uvx";
  const ticker = setInterval(() => {
    const seconds = Math.round((performance.now() - started) / 1000);
    line.update(`${installs ? "installing or starting" : "starting"} … ${seconds} s (${launch.name})`);
  }, SHOWN_AFTER_MS);
  try {
    const upstream = await connectUpstream(launch, {
      env: process.env,
      folder: process.cwd(),
      variable,
      limits,
      ...(ask && { ask, capabilities: { elicitation: { form: {}, url: {} } } }),
      ...(options.hosted && { capabilities: hostedCapabilities }),
      clientInfo: { name: "berth", version: packageVersion() },
      started: begun?.take(launch),
      send,
      signal,
      ...(options.verbose && { onNotification: (method, params) => tell({ notification: { method, params } }) }),
    });
    if (options.verbose) {
      const { era, protocolVersion, serverInfo } = upstream;
      tell({
        reached: { server: launch.name, serverInfo, era, protocolVersion, ms: Math.round(performance.now() - started) },
      });
    }
    return upstream;
  } finally {
    clearInterval(ticker);
    line.end();
  }
}

/** Sends the user's own Berth its token, unless the URI has a credential. Profiles never contain one. */
function withOwnToken(launch: Launch): { readonly launch: Launch; readonly variable: VariableLookup } {
  const { env } = process;
  const variable = (name: string): string | undefined => env[name];
  if (!("url" in launch) || Object.keys(launch.headers).some((name) => /^authorization$/i.test(name))) {
    return { launch, variable };
  }
  const token = tokenIfOwn(launch.url);
  if (token === undefined) return { launch, variable };
  const headers = { ...launch.headers, Authorization: { text: "Bearer ${BERTH_TOKEN}", offset: 0 } };
  return { launch: { ...launch, headers }, variable: (name) => (name === "BERTH_TOKEN" ? token : variable(name)) };
}

function limitsOf({ timeout, startTimeout }: ReachOptions): Record<string, string> {
  return {
    ...(timeout !== undefined && { [limitVariable("upstreamCallMs")]: milliseconds("--timeout", timeout) }),
    ...(startTimeout !== undefined && {
      [limitVariable("upstreamStartMs")]: milliseconds("--start-timeout", startTimeout),
    }),
  };
}

function milliseconds(option: string, text: string): string {
  const seconds = /^\d+(?:\.\d+)?$/.test(text) ? Number(text) : 0;
  if (seconds > 0 && seconds <= DAY_SECONDS) return String(Math.ceil(seconds * 1000));
  throw usageFailure(`${option} takes seconds, such as 30 or 0.5 and at most ${DAY_SECONDS}, not "${text}".`);
}

const DAY_SECONDS = 86_400;

/** Prints a JSON line to stderr, for `-v`. */
function tell(what: Record<string, unknown>): void {
  process.stderr.write(`${printableJson(JSON.stringify(what))}\n`);
}
