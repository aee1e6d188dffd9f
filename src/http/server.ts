import { createServer, type IncomingMessage, type Server } from "node:http";
import type { Host } from "../host/host.ts";
import type { Log } from "../log.ts";
import type { Endpoint } from "../mcp/endpoint.ts";
import { createApp } from "./app.ts";
import { createGuard } from "./guard.ts";
import { createMcpRoute } from "./mcp-route.ts";

export interface HttpOptions {
  readonly host: Host;
  readonly endpoint: Endpoint;
  readonly tenant: string;
  /** What guests run as, for the page. */
  readonly isolation: string;
  readonly allowedHosts: readonly string[];
  readonly limits: { readonly bodyBytes: number; readonly headersMs: number; readonly requestMs: number };
  readonly log: Log;
}

/**
 * The HTTP side: one Node server, the MCP endpoint in front, the Express application behind it.
 * It knows no SQL, no compiler and no child process.
 */
export function createHttpServer(options: HttpOptions): Server {
  const guard = createGuard(options.allowedHosts);
  const mcp = createMcpRoute({ ...options, guard });
  const app = createApp({ ...options, guard });
  const server = createServer((request: IncomingMessage, response) => {
    if (!mcp(request, response)) app(request, response);
  });
  server.headersTimeout = options.limits.headersMs;
  server.requestTimeout = options.limits.requestMs;
  return server;
}

/** Ends as soon as the answers under way are written, after `shutdownMs` at the latest. */
export async function closeHttpServer(server: Server, shutdownMs: number): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  const timer = setTimeout(() => server.closeAllConnections(), shutdownMs);
  await closed;
  clearTimeout(timer);
}
