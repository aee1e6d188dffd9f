import type { IncomingMessage, ServerResponse } from "node:http";
import type { Principal } from "../access/principal.ts";
import { Cancellation } from "../cancellation.ts";
import { BerthError } from "../errors.ts";
import { readAccept } from "./accept.ts";
import { allowOrigin } from "./cors.ts";
import { decodeName, MCP_PATH, type McpRouteOptions } from "./mcp-route.ts";
import { tenantOf } from "./place.ts";
import { writeAnswer, writeFailure } from "./write-answer.ts";

/**
 * `GET /mcp/<server>` by a client that takes events: the stream of its session; and `DELETE`, which ends the session.
 * Returns false for every other request, such as a browser's.
 */
export function createMcpGet(
  options: McpRouteOptions,
): (request: IncomingMessage, response: ServerResponse) => boolean {
  return (request, response) => {
    const { method, headers, url = "" } = request;
    const listens = method === "GET" && readAccept(headers.accept).events;
    if (!listens && method !== "DELETE") return false;
    const path = MCP_PATH.exec(url);
    if (!path) return false;
    void answer(path[1], request, response, options);
    return true;
  };
}

async function answer(
  name: string | undefined,
  request: IncomingMessage,
  response: ServerResponse,
  options: McpRouteOptions,
): Promise<void> {
  const { endpoint, allServers, guard, authenticate, challenge, limits, log } = options;
  try {
    guard(request);
    allowOrigin(request, response);
    const found = authenticate(request);
    const principal = found instanceof Promise ? await found : found;
    const server = name === undefined ? allServers : decodeName(name);
    const answered =
      request.method === "DELETE"
        ? await endpoint.end(tenantOf(request), server, { headers: request.headers, principal })
        : await listen(server, principal, request, response, options);
    if (!answered || response.headersSent) return;
    if (answered.denied) challenge(request, response, answered.denied, principal);
    if (answered.status === 405) response.setHeader("Allow", "POST");
    writeAnswer(response, answered, limits.stalledMs);
  } catch (error) {
    challenge(request, response, error);
    writeFailure(response, error, limits.stalledMs, log);
  }
}

function listen(
  server: string,
  principal: Principal | undefined,
  request: IncomingMessage,
  response: ServerResponse,
  { endpoint, streams }: McpRouteOptions,
): ReturnType<McpRouteOptions["endpoint"]["listen"]> {
  const tenant = tenantOf(request);
  const events = streams.take(response, principal);
  if (!events) throw new BerthError("too_many_streams");
  const signal = new Cancellation();
  response.once("close", () => signal.abort());
  events.stand();
  return endpoint.listen(tenant, server, { headers: request.headers, principal, events, signal });
}
