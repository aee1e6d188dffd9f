import type { IncomingMessage, ServerResponse } from "node:http";

/** The methods allowed to pages in browsers (Fetch standard). The guard has already checked the origin. */
const METHODS = "GET, POST, DELETE, OPTIONS";
/** The response headers that a client in a page has to read. */
const EXPOSED = "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Retry-After, X-Request-Id";
/** Headers that clients of any revision send, and those that a tool's schema may ask for. */
const ALLOWED =
  /^(?:content-type|accept|authorization|last-event-id|traceparent|tracestate|baggage|x-request-id|mcp-(?:protocol-version|method|name|session-id|param-[!#$%&'*+.^_`|~\w-]+))$/;
const ALLOWED_NAMES =
  "Content-Type, Accept, Authorization, Last-Event-ID, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id";
const MAX_AGE_S = 7200;

/** Lets the page that sent this request read the answer. */
export function allowOrigin(request: IncomingMessage, response: ServerResponse): void {
  const { origin } = request.headers;
  if (origin === undefined) return;
  response.setHeader("Access-Control-Allow-Origin", origin);
  response.setHeader("Access-Control-Expose-Headers", EXPOSED);
  response.setHeader("Vary", "Origin");
}

/** Answers a preflight, which browsers send before a request that a form could not make. */
export function answerPreflight(request: IncomingMessage, response: ServerResponse): void {
  const asked = request.headers["access-control-request-headers"];
  const names = asked?.split(",").map((name) => name.trim().toLowerCase());
  response.setHeader("Access-Control-Allow-Methods", METHODS);
  response.setHeader(
    "Access-Control-Allow-Headers",
    names?.filter((name) => ALLOWED.test(name)).join(", ") ?? ALLOWED_NAMES,
  );
  response.setHeader("Access-Control-Max-Age", MAX_AGE_S);
  response.setHeader("Vary", "Origin, Access-Control-Request-Headers");
  response.writeHead(204).end();
}
