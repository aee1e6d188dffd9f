import type { IncomingMessage, ServerResponse } from "node:http";
import { Cancellation } from "../cancellation.ts";
import { BerthError } from "../errors.ts";
import type { Log } from "../log.ts";
import type { Endpoint } from "../mcp/endpoint.ts";
import { errorText } from "../mcp/json-rpc.ts";
import type { Answer } from "../mcp/protocol.ts";
import { readBody } from "./body.ts";
import { EventStream } from "./event-stream.ts";

export interface McpRouteOptions {
  readonly endpoint: Endpoint;
  readonly tenant: string;
  readonly guard: (request: IncomingMessage) => void;
  readonly limits: { readonly bodyBytes: number };
  readonly log: Log;
}

const MCP_PATH = /^\/mcp\/([^/?]+)\/?(?:\?|$)/;

/**
 * `POST /mcp/<server>`, in front of Express: its router, body parser and response helpers would cost several times
 * what the protocol does. Returns false for every other request.
 */
export function createMcpRoute(
  options: McpRouteOptions,
): (request: IncomingMessage, response: ServerResponse) => boolean {
  return (request, response) => {
    if (request.method !== "POST") return false;
    const name = MCP_PATH.exec(request.url ?? "")?.[1];
    if (name === undefined) return false;
    void answerPost(name, request, response, options);
    return true;
  };
}

async function answerPost(
  name: string,
  request: IncomingMessage,
  response: ServerResponse,
  { endpoint, tenant, guard, limits, log }: McpRouteOptions,
): Promise<void> {
  try {
    guard(request);
    const { headers } = request;
    if (!isJson(headers["content-type"])) throw new BerthError("unsupported_media_type");
    const accept = headers.accept ?? "*/*";
    const takesEvents = accept.includes("text/event-stream");
    if (!takesEvents && !/application\/(json|\*)|\*\/\*/.test(accept)) throw new BerthError("not_acceptable");
    if (headers.origin !== undefined) allowOrigin(response, headers.origin);

    const body = await readBody(request, limits.bodyBytes);
    const events = takesEvents ? new EventStream(response) : undefined;
    const server = decodeURIComponent(name);
    const answer = await endpoint.post(tenant, server, {
      headers,
      body,
      ...(events && { events }),
      signal: cancelledBy(response),
    });
    if (events?.isOpen) events.end(answer.body);
    else write(response, answer);
  } catch (error) {
    fail(response, error, log);
  }
}

function write(response: ServerResponse, { status, body }: Answer): void {
  if (response.destroyed) return;
  if (body === undefined) {
    response.writeHead(status).end();
    return;
  }
  const length = Buffer.byteLength(body);
  response.writeHead(status, ["Content-Type", "application/json", "Content-Length", String(length)]).end(body);
}

function fail(response: ServerResponse, error: unknown, log: Log): void {
  const known =
    error instanceof BerthError ? error : error instanceof URIError ? new BerthError("server_not_found") : undefined;
  if (!known) log.error({ err: error }, "answering a POST failed");
  const shown = known ?? new BerthError("internal");
  if (response.headersSent) response.destroy();
  else write(response, { status: shown.status, body: errorText(null, shown) });
}

/** Aborted when the client goes before its answer is written. */
function cancelledBy(response: ServerResponse): Cancellation {
  const cancellation = new Cancellation();
  response.once("close", () => {
    if (!response.writableFinished) cancellation.abort();
  });
  return cancellation;
}

function isJson(contentType: string | undefined): boolean {
  return contentType !== undefined && /^application\/json\s*(;|$)/i.test(contentType);
}

/** The guard has judged the origin already. */
function allowOrigin(response: ServerResponse, origin: string): void {
  response.setHeader("Access-Control-Allow-Origin", origin);
  response.setHeader("Vary", "Origin");
}
