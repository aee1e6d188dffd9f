import type { ServerResponse } from "node:http";
import { BerthError } from "../errors.ts";
import type { Log } from "../log.ts";
import { errorText } from "../mcp/json-rpc.ts";
import type { Answer } from "../mcp/protocol.ts";
import { endResponse } from "./event-stream.ts";

/** Writes an answer of the endpoint; `stalledMs` is how long the client may take none of it. */
export function writeAnswer(response: ServerResponse, { status, body, headers }: Answer, stalledMs: number): void {
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

/** Writes what kept a request from the endpoint. */
export function writeFailure(response: ServerResponse, error: unknown, stalledMs: number, log: Log): void {
  if (!(error instanceof BerthError)) log.error({ err: error }, "answering a request failed");
  const shown = error instanceof BerthError ? error : new BerthError("internal");
  if (response.headersSent) return void response.destroy();
  sayWhenToRetry(response, shown);
  writeAnswer(response, { status: shown.status, body: errorText(null, shown) }, stalledMs);
}

/** RFC 9110, 10.2.3. */
export function sayWhenToRetry(response: ServerResponse, { data }: BerthError): void {
  const seconds = data?.["retryAfterSeconds"];
  if (typeof seconds === "number") response.setHeader("Retry-After", String(seconds));
}
