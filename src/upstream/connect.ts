import { closeSync, openSync } from "node:fs";
import { devNull } from "node:os";
import type { Limits } from "../limits/limits.ts";
import type { JsonObject } from "../lib/json.ts";
import type { Start } from "../starter/starter.ts";
import type { MakeFolder } from "../work-folders.ts";
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
 * Connections to servers of others: the only place that speaks MCP as a client. Knows launcher URIs and child
 * processes, which are spoken to directly, and the official client, which reaches everything else; knows nothing of what
 * Berth itself serves, and imports leaves alone.
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
  /** How this client calls itself. */
  readonly clientInfo: { readonly name: string; readonly version: string };
  /** What the server may ask for; questions go to the call's `ask`, or to this one. Default: nothing. */
  readonly capabilities?: JsonObject;
  readonly ask?: Ask;
  /** Log messages, changed lists, updated resources: whatever is no progress. */
  readonly onNotification?: (method: string, params: JsonObject) => void;
  /** How a program is started; by default by this process itself. */
  readonly start?: Start | undefined;
  /** Where a program is that has no folder of its own choice; by default below the system's temporary folder. */
  readonly makeFolder?: MakeFolder | undefined;
  /** The server's process, where it was started before; this takes it over. */
  readonly started?: Promise<Child> | undefined;
  /** How a remote server is reached; by default anywhere. */
  readonly fetch?: typeof fetch;
  /** Reads long messages elsewhere. */
  readonly long?: LongReader | undefined;
  /** For messages that are on their way; without them those are not counted. */
  readonly rooms?: ChildRooms | undefined;
  /** Ends the start. */
  readonly signal?: AbortSignal;
}

/**
 * Starts or reaches the server and agrees on a revision, the modern era first. Throws `launcher_invalid`,
 * `upstream_not_started` (with the end of stderr), `upstream_timeout`, `upstream_refused` or `cancelled`. Nothing is
 * left running then.
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
  const { openRemote } = await import("./official-client.ts");
  isClientLoaded = true;
  return openRemote(launch, addressOf(launch, options), options, questions);
}

let isClientLoaded = false;

/**
 * Throws where few descriptors are left: Node goes on to fail with a module that it once could not open, so that it does
 * not begin to load the client then.
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
