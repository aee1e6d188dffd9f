import { Client, type DiscoverResult } from "@modelcontextprotocol/client";
import type { JsonObject } from "../json.ts";
import { ChildTransport } from "./child-transport.ts";
import type { ConnectOptions } from "./connect.ts";
import type { Channel } from "./channel.ts";
import { failureOf } from "./failures.ts";
import type { Greeted } from "./greet-child.ts";
import type { RemoteLaunch } from "./launch.ts";
import type { Questions } from "./questions.ts";
import { openByHttp, type Address } from "./remote.ts";

/**
 * All that is done by the official client: servers at an address, and what modern servers tell who listens to them.
 * Whoever imports this loads it, which takes as long as many a server's own start.
 */
export function openRemote(
  launch: RemoteLaunch,
  address: Address,
  options: ConnectOptions,
  questions: Questions,
): Promise<Channel> {
  return openByHttp(launch, address, () => newClient(options, questions), options);
}

/** From here on the client hears whatever is of no request; changes go to `onNotification`, as everything else does. */
export async function listenToChild(
  { requests, discovery }: Greeted,
  filter: JsonObject,
  timeoutMs: number,
  options: ConnectOptions,
  questions: Questions,
): Promise<void> {
  const client = newClient(options, questions);
  try {
    const prior = { kind: "modern", discover: discovery as DiscoverResult } as const;
    await client.connect(new ChildTransport(requests), { prior });
    await client.listen(filter, { timeout: timeoutMs });
  } catch (error) {
    throw failureOf(error, "listening for changes", undefined, "it has ended");
  }
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
