import { Client } from "@modelcontextprotocol/client";
import type { Limits } from "../config.ts";
import type { JsonObject } from "../json.ts";
import type { ChildLimits } from "./child.ts";
import { commandOf, addressOf, type Surroundings } from "./command.ts";
import { UpstreamConnection, type Ask, type ConnectionLimits } from "./connection.ts";
import type { Launch } from "./launch.ts";
import { Questions } from "./questions.ts";
import { openRemote } from "./remote.ts";
import { startChild } from "./start-child.ts";

/**
 * Connections to servers of others: the only place that speaks MCP as a client. Knows launcher URIs, child processes
 * and the official client; knows nothing of what Berth itself serves, and imports leaves alone.
 */
export interface ConnectOptions extends Surroundings {
  readonly limits: ConnectionLimits &
    ChildLimits &
    Pick<Limits, "upstreamStartMs" | "upstreamProbeMs" | "upstreamEndMs" | "upstreamMessageBytes">;
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
  const newClient = (): Client => {
    const client = new Client(options.clientInfo, {
      capabilities: options.capabilities ?? {},
      inputRequired: { autoFulfill: false },
    });
    questions.answerRequestsOf(client);
    const { onNotification } = options;
    if (onNotification) {
      client.fallbackNotificationHandler = ({ method, params }) => {
        onNotification(method, (params ?? {}) as JsonObject);
        return Promise.resolve();
      };
    }
    return client;
  };
  const { client, channel } =
    "url" in launch
      ? await openRemote(launch, addressOf(launch, options), newClient, options)
      : await startChild(launch, commandOf(launch, options), newClient, options);
  return new UpstreamConnection(client, channel, options.limits, questions);
}
