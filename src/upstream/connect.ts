import { closeSync, openSync } from "node:fs";
import { devNull } from "node:os";
import type { Limits } from "../limits/limits.ts";
import type { JsonObject } from "../lib/json.ts";
import type { Spawn } from "../processes/spawn/spawn.ts";
import type { MakeFolder } from "../processes/work-folders.ts";
import type { Child, ChildLimits, ChildRooms } from "./child.ts";
import { addressOf, type Surroundings } from "./command.ts";
import type { Channel } from "./channel.ts";
import { UpstreamConnection, type ConnectionLimits } from "./connection.ts";
import type { Launch } from "./launch.ts";
import type { LongReader } from "./long-answers.ts";
import type { Ask } from "./request.ts";
import { Questions } from "./questions.ts";
import { greetChild, type Greeted } from "./greet-child.ts";

/**
 * Connections to upstreams: the only place that speaks MCP as a client. Knows launcher URIs and child processes, which
 * it speaks to directly, and the official client, which reaches everything else; knows nothing of what Berth itself
 * serves, and imports leaves alone.
 */
export interface ConnectOptions extends Surroundings {
  readonly limits: ConnectionLimits &
    ChildLimits &
    Pick<
      Limits,
      | "batchMessages"
      | "upstreamCallMs"
      | "upstreamStartMs"
      | "upstreamProbeMs"
      | "upstreamEndMs"
      | "upstreamMessageBytes"
      | "upstreamNotificationsPerSecond"
      | "upstreamQuestions"
      | "upstreamRequests"
      | "upstreamResumesPerSecond"
    >;
  /** The name that this client gives itself. */
  readonly clientInfo: { readonly name: string; readonly version: string };
  /** Requests that the server may make; questions go to the call's `ask`, or to this one. Default: none. */
  readonly capabilities?: JsonObject;
  readonly ask?: Ask;
  /** Log messages, changed lists, updated resources: everything but progress. */
  readonly onNotification?: (method: string, params: JsonObject) => void;
  /** Starts a program; by default this process does. */
  readonly start?: Spawn | undefined;
  /** Makes a working folder for a program that specifies none; by default below the system's temporary folder. */
  readonly makeFolder?: MakeFolder | undefined;
  /** The server's process, if already started; the connection takes it over. */
  readonly started?: Promise<Child> | undefined;
  /** Reaches a remote server; by default any address. */
  readonly fetch?: typeof fetch;
  /** Reads long messages elsewhere. */
  readonly long?: LongReader | undefined;
  /** Memory for messages in transit; without it they are not counted. */
  readonly rooms?: ChildRooms | undefined;
  /** Aborts the start. */
  readonly signal?: AbortSignal;
}

/**
 * Starts or reaches the server and agrees on a revision, the modern era first. Throws `launcher_invalid`,
 * `upstream_not_started` (with the end of stderr), `upstream_timeout`, `upstream_refused` or `cancelled`, and then
 * leaves nothing running.
 */
export async function connectUpstream(launch: Launch, options: ConnectOptions): Promise<UpstreamConnection> {
  const questions = new Questions(options.ask);
  const channel = await channelTo(launch, options, questions);
  return new UpstreamConnection(channel, options.limits, questions, options.long);
}

async function channelTo(launch: Launch, options: ConnectOptions, questions: Questions): Promise<Channel> {
  if (!("url" in launch)) {
    return pipeChannel(await greetChild(launch, options, questions));
  }
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

function pipeChannel({ peer, requests, inbox }: Greeted): Channel {
  const { child } = requests;
  return {
    transport: "stdio",
    peer,
    requests,
    listen: (filter, timeoutMs) => inbox.listen(filter, timeoutMs),
    closed: child.ended,
    close: (fault) => child.end(fault),
  };
}
