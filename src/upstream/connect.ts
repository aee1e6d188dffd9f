import type { Client } from "@modelcontextprotocol/client";
import type { Limits } from "../config.ts";
import type { JsonObject } from "../json.ts";
import { Child, type ChildLimits } from "./child.ts";
import { commandOf, addressOf, type Surroundings } from "./command.ts";
import type { Channel, ConnectionLimits, UpstreamConnection } from "./connection.ts";
import type { Launch } from "./launch.ts";
import type { Ask } from "./request.ts";
import { Questions } from "./questions.ts";
import { greetChild } from "./greet-child.ts";

/**
 * Connections to servers of others: the only place that speaks MCP as a client. Knows launcher URIs, child processes
 * and the official client; knows nothing of what Berth itself serves, and imports leaves alone.
 */
export interface ConnectOptions extends Surroundings {
  readonly limits: ConnectionLimits &
    ChildLimits &
    Pick<Limits, "upstreamCallMs" | "upstreamStartMs" | "upstreamProbeMs" | "upstreamEndMs" | "upstreamMessageBytes">;
  /** How this client calls itself. */
  readonly clientInfo: { readonly name: string; readonly version: string };
  /** What the server may ask for; questions go to the call's `ask`, or to this one. Default: nothing. */
  readonly capabilities?: JsonObject;
  readonly ask?: Ask;
  /** Log messages, changed lists, updated resources: whatever is no progress. */
  readonly onNotification?: (method: string, params: JsonObject) => void;
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
  const connection = ({ UpstreamConnection }: Official, { client, channel }: Opened): UpstreamConnection =>
    new UpstreamConnection(client, channel, options.limits, questions);
  if ("url" in launch) {
    const official = await import("./official-client.ts");
    const newClient = (): Client => official.newClient(options, questions);
    return connection(official, await official.openRemote(launch, addressOf(launch, options), newClient, options));
  }
  const child = new Child(commandOf(launch, options), options.limits);
  // Loaded while the server starts.
  const loading = import("./official-client.ts");
  const newClient = async (): Promise<Client> => (await loading).newClient(options, questions);
  const opened = await greetChild(launch, child, newClient, options);
  return connection(await loading, opened);
}

type Official = typeof import("./official-client.ts");

interface Opened {
  readonly client: Client;
  readonly channel: Channel;
}
