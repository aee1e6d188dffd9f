import type { IncomingMessage, ServerResponse } from "node:http";
import { Cancellation } from "../cancellation.ts";
import { BerthError } from "../errors.ts";
import type { Log } from "../log.ts";
import type { Endpoint } from "../mcp/endpoint.ts";
import { errorText } from "../mcp/json-rpc.ts";
import type { Answer } from "../mcp/protocol.ts";
import { readAccept } from "./accept.ts";
import { readBody } from "./body.ts";
import { allowOrigin } from "./cors.ts";
import { endResponse, type EventStream } from "./event-stream.ts";
import type { OpenStreams } from "./open-streams.ts";

export interface McpRouteOptions {
  readonly endpoint: Endpoint;
  readonly tenant: string;
  /** The server's name that stands for all of them, at `/mcp` itself. */
  readonly allServers: string;
  readonly guard: (request: IncomingMessage) => void;
  readonly streams: OpenStreams;
  readonly limits: { readonly bodyBytes: number; readonly stalledMs: number };
  readonly log: Log;
}

const MCP_PATH = /^\/mcp(?:\/([^/?]+))?\/?(?:\?|$)/;

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
  const { endpoint, tenant, allServers, guard, streams, limits, log } = options;
  let events: EventStream | undefined;
  try {
    guard(request);
    allowOrigin(request, response);
    const { headers } = request;
    checkContent(headers);
    const accepted = readAccept(headers.accept);
    if (!accepted.json && !accepted.events) throw new BerthError("not_acceptable");
    const server = name === undefined ? allServers : decodeName(name);

    const body = await readBody(request, limits.bodyBytes);
    // A client for which there is no stream is answered all at once.
    if (accepted.events) events = streams.take(response);
    const signal = cancelledBy(response);
    const answer = await endpoint.post(tenant, server, { headers, body, ...(events && { events }), signal });
    if (events?.isOpen) events.end(answer.body);
    else write(response, answer, limits.stalledMs);
  } catch (error) {
    fail(error);
  } finally {
    if (events) streams.giveBack(events);
  }

  function fail(error: unknown): void {
    if (!(error instanceof BerthError)) log.error({ err: error }, "answering a POST failed");
    const shown = error instanceof BerthError ? error : new BerthError("internal");
    if (response.headersSent) response.destroy();
    else write(response, { status: shown.status, body: errorText(null, shown) }, limits.stalledMs);
  }
}

function write(response: ServerResponse, { status, body, headers }: Answer, stalledMs: number): void {
  if (response.destroyed) return;
  for (const name in headers) response.setHeader(name, headers[name]!);
  if (body === undefined) {
    response.writeHead(status).end();
    return;
  }
  const length = Buffer.byteLength(body);
  response.writeHead(status, ["Content-Type", "application/json", "Content-Length", String(length)]);
  endResponse(response, body, stalledMs);
}

/** Aborted when the client goes before its answer is written. */
function cancelledBy(response: ServerResponse): Cancellation {
  const cancellation = new Cancellation();
  response.once("close", () => {
    if (!response.writableFinished) cancellation.abort();
  });
  return cancellation;
}

function checkContent({ "content-type": type, "content-encoding": encoding }: IncomingMessage["headers"]): void {
  if (type === undefined || !/^application\/json\s*(;|$)/i.test(type)) throw new BerthError("unsupported_media_type");
  if (encoding !== undefined && encoding !== "identity") {
    throw new BerthError("unsupported_media_type", `and its Content-Encoding identity, not ${encoding}`);
  }
}

function decodeName(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    throw new BerthError("server_not_found", `"${name}" is not well percent-encoded`);
  }
}
