import type { ServerResponse } from "node:http";
import type { BerthError } from "../lib/errors.ts";
import type { Log } from "../lib/log.ts";
import { LongText } from "../lib/long-text.ts";
import { errorText } from "../mcp/json-rpc.ts";
import type { Answer } from "../mcp/protocol.ts";
import { tellable } from "../lib/error-mapping.ts";
import { endResponse } from "./event-stream.ts";
import { opensPage, writePlainPage } from "./plain-page.ts";
import { REQUEST_ID_HEADER, type RequestContext } from "./request-context.ts";

/** Writes an answer of the endpoint; the client may stall for `stalledMs`. */
export function writeAnswer(context: RequestContext, { status, body, headers }: Answer, stalledMs: number): void {
  const { response } = context;
  if (response.destroyed) return;
  for (const name in headers) response.setHeader(name, headers[name]!);
  const { requestId } = context.trace;
  if (body === undefined) {
    response.writeHead(status, [REQUEST_ID_HEADER, requestId]).end();
    return;
  }
  const length = String(body instanceof LongText ? body.bytes : Buffer.byteLength(body));
  const type = "application/json";
  response.writeHead(status, ["Content-Type", type, "Content-Length", length, REQUEST_ID_HEADER, requestId]);
  endResponse(context, body, stalledMs);
}

/** Writes the error that kept a request from the endpoint. */
export function writeFailure(context: RequestContext, error: unknown, stalledMs: number, log: Log): void {
  const { request, response } = context;
  const shown = tellable(error, context.trace.requestId, log, "answering a request failed");
  if (response.headersSent) return void response.destroy();
  sayWhenToRetry(response, shown);
  if (opensPage(request)) writePlainPage(context, shown);
  else writeAnswer(context, { status: shown.status, body: errorText(null, shown) }, stalledMs);
}

/** RFC 9110, 10.2.3. */
export function sayWhenToRetry(response: ServerResponse, { data }: BerthError): void {
  const seconds = data?.["retryAfterSeconds"];
  if (typeof seconds === "number") response.setHeader("Retry-After", String(seconds));
}
