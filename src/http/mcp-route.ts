import type { IncomingMessage, ServerResponse } from "node:http";
import { Cancellation } from "../cancellation.ts";
import { BerthError } from "../errors.ts";
import type { Log } from "../log.ts";
import type { Endpoint } from "../mcp/endpoint.ts";
import { readAccept } from "./accept.ts";
import { atClose, type Ending } from "./at-close.ts";
import type { Bodies } from "./body.ts";
import type { Authenticate } from "./access/authenticate.ts";
import type { Challenge } from "./access/challenge.ts";
import { allowOrigin } from "./cors.ts";
import type { EventStream } from "./event-stream.ts";
import type { OpenStreams } from "./open-streams.ts";
import { tenantOf } from "./place.ts";
import { traceOf } from "./trace.ts";
import { writeAnswer, writeFailure } from "./write-answer.ts";

export interface McpRouteOptions {
  readonly endpoint: Endpoint;
  /** The server's name that stands for all of them, at `/mcp` itself. */
  readonly allServers: string;
  readonly guard: (request: IncomingMessage) => void;
  readonly authenticate: Authenticate;
  readonly challenge: Challenge;
  readonly streams: OpenStreams;
  readonly bodies: Bodies;
  readonly limits: { readonly stalledMs: number };
  readonly log: Log;
}

export const MCP_PATH = /^\/mcp(?:\/([^/?]+))?\/?(?:\?|$)/;

/**
 * `POST /mcp/<server>` and `POST /mcp`, in front of Express: its router, body parser and response helpers would cost
 * several times what the protocol does. Returns false for every other request.
 */
export function createMcpRoute(
  options: McpRouteOptions,
): (request: IncomingMessage, response: ServerResponse) => boolean {
  return (request, response) => {
    if (request.method !== "POST") return false;
    const path = MCP_PATH.exec(request.url ?? "");
    if (!path) return false;
    void answerPost(path[1], request, response, options);
    return true;
  };
}

async function answerPost(
  name: string | undefined,
  request: IncomingMessage,
  response: ServerResponse,
  options: McpRouteOptions,
): Promise<void> {
  const { endpoint, allServers, guard, authenticate, challenge, streams, bodies, limits, log } = options;
  let events: EventStream | undefined;
  let letGo: (() => void) | undefined;
  try {
    guard(request);
    allowOrigin(request, response);
    const found = authenticate(request);
    // Waited for only where it has to be: the rest of a call is worth a few microseconds.
    const principal = found instanceof Promise ? await found : found;
    const tenant = tenantOf(request);
    const { headers } = request;
    checkContent(headers);
    const accepted = readAccept(headers.accept);
    if (!accepted.json && !accepted.events) throw new BerthError("not_acceptable");
    const server = name === undefined ? allServers : decodeName(name);

    const body = await bodies.read(request);
    letGo = bodies.hold(tenant, body);
    // A client for which there is no stream is answered all at once.
    if (accepted.events) events = streams.take(response, principal);
    const signal = cancelledBy(response);
    const answer = await endpoint.post(tenant, server, {
      headers,
      body,
      principal,
      trace: traceOf(request),
      events,
      signal,
    });
    if (answer.denied) challenge(request, response, answer.denied, principal);
    if (events?.isOpen) events.end(answer.body);
    else writeAnswer(response, answer, limits.stalledMs);
  } catch (error) {
    challenge(request, response, error);
    writeFailure(response, error, limits.stalledMs, log);
  } finally {
    letGo?.();
  }
}

/** Aborted when the client goes before its answer is written. */
export function cancelledBy(response: ServerResponse): Cancellation {
  const cancellation = new RequestCancellation();
  atClose(response, cancellation);
  return cancellation;
}

class RequestCancellation extends Cancellation implements Ending {
  leave(isWhole: boolean): void {
    if (!isWhole) this.abort();
  }
}

export function checkContent({ "content-type": type, "content-encoding": encoding }: IncomingMessage["headers"]): void {
  if (type === undefined || !/^application\/json\s*(;|$)/i.test(type)) throw new BerthError("unsupported_media_type");
  if (encoding !== undefined && encoding !== "identity") {
    throw new BerthError("unsupported_media_type", `and its Content-Encoding identity, not ${encoding}`);
  }
}

export function decodeName(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    throw new BerthError("server_not_found", `"${name}" is not well percent-encoded`);
  }
}
