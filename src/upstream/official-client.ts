import { Client } from "@modelcontextprotocol/client";
import type { JsonObject } from "../lib/json.ts";
import type { ConnectOptions } from "./connect.ts";
import type { Channel } from "./channel.ts";
import type { RemoteLaunch } from "./launch.ts";
import type { Questions } from "./questions.ts";
import { openByHttp, type RemoteAddress } from "./remote.ts";

/**
 * Opens remote servers with the official client. Importing this loads the client, which takes as long as many a
 * server's own start.
 */
export function openRemote(
  launch: RemoteLaunch,
  address: RemoteAddress,
  options: ConnectOptions,
  questions: Questions,
): Promise<Channel> {
  return openByHttp(launch, address, () => newClient(options, questions), options);
}

function newClient({ clientInfo, capabilities, onNotification }: ConnectOptions, questions: Questions): Client {
  const client = new Client(clientInfo, { capabilities: capabilities ?? {}, inputRequired: { autoFulfill: false } });
  client.fallbackRequestHandler = ({ method, params }, { mcpReq }) =>
    questions.answer({ method, params: (params ?? {}) as JsonObject }, mcpReq.signal);
  if (onNotification) {
    client.fallbackNotificationHandler = ({ method, params }) => {
      onNotification(method, (params ?? {}) as JsonObject);
      return Promise.resolve();
    };
  }
  return client;
}
