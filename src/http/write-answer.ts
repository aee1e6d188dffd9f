import { createHash } from "node:crypto";
import type { ServerResponse, IncomingMessage } from "node:http";
import { toClientError } from "../lib/error-mapping.ts";
import type { BerthError } from "../lib/errors.ts";
import type { Log } from "../lib/log.ts";
import { LongText } from "../lib/long-text.ts";
import { errorText } from "../mcp/json-rpc.ts";
import type { Answer } from "../mcp/protocol.ts";
import { endResponse } from "./event-stream.ts";
import { handlebars } from "./handlebars.ts";
import { REQUEST_ID_HEADER, type RequestContext } from "./request-context.ts";

/** Writes an answer of the endpoint. */
export function writeAnswer(context: RequestContext, { status, body, headers }: Answer): void {
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
  endResponse(context, body);
}

/** Writes the error that kept a request from the endpoint. */
export function writeFailure(context: RequestContext, error: unknown, log: Log): void {
  const { request, response } = context;
  const shown = toClientError(error, context.trace.requestId, log, "answering a request failed");
  if (response.headersSent) return void response.destroy();
  sayWhenToRetry(response, shown);
  if (opensPage(request)) writePlainPage(context, shown);
  else writeAnswer(context, { status: shown.status, body: errorText(null, shown) });
}

/** RFC 9110, 10.2.3. */
export function sayWhenToRetry(response: ServerResponse, { data }: BerthError): void {
  const seconds = data?.["retryAfterSeconds"];
  if (typeof seconds === "number") response.setHeader("Retry-After", String(seconds));
}

/**
 * The page for a person who is refused before anything is examined: small, without templates, assets or scripts, so
 * that refusing costs next to nothing and the page needs no further request, which would be refused as well.
 */
const STYLE = `:root { color-scheme: light dark; font: 100%/1.5 system-ui, sans-serif; }
html { color: light-dark(#1c242d, #e3e7ec); background: light-dark(#fbfbf9, #13171c); }
p { margin: 0 0 0.25rem; font-size: 0.8125rem; font-weight: 600; color: light-dark(#57616d, #9ba7b4); }
main { max-width: 38rem; margin: 15vh auto 0; padding: 0 1.25rem; overflow-wrap: anywhere; }
h1 { margin: 0; font-size: 1.375rem; line-height: 1.3; }
`;
const POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash("sha256").update(STYLE).digest("base64")}'`,
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join("; ");

/** True when a person waits for a page: programs accept anything, or name what they accept. */
function opensPage({ method, headers: { accept } }: IncomingMessage): boolean {
  return method === "GET" && accept !== undefined && accept.includes("text/html");
}

function writePlainPage({ response, trace }: RequestContext, { status, message }: BerthError): void {
  const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Error ${status}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<p>Error ${status}</p>
<h1>${handlebars.escapeExpression(message)}</h1>
</main>
</body>
</html>
`;
  response.writeHead(status, {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Length": Buffer.byteLength(html),
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    Vary: "Accept",
    [REQUEST_ID_HEADER]: trace.requestId,
  });
  response.end(html);
}
