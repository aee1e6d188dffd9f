import { Client } from "@modelcontextprotocol/client";
import type { JsonObject } from "../json.ts";
import type { ConnectOptions } from "./connect.ts";
import type { Questions } from "./questions.ts";

export { UpstreamConnection } from "./connection.ts";
export { openRemote } from "./remote.ts";

/** The official client, set up: whoever imports this loads it, which takes as long as many a server's own start. */
export function newClient({ clientInfo, capabilities, onNotification }: ConnectOptions, questions: Questions): Client {
  const client = new Client(clientInfo, { capabilities: capabilities ?? {}, inputRequired: { autoFulfill: false } });
  questions.answerRequestsOf(client);
  if (onNotification) {
    client.fallbackNotificationHandler = ({ method, params }) => {
      onNotification(method, (params ?? {}) as JsonObject);
      return Promise.resolve();
    };
  }
  return client;
}
