import { createServer, type Server } from "node:http";
import type { Admission } from "../admission/admission.ts";
import { AnonymousLimits } from "../admission/anonymous-limits.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { NodeRequests } from "../cluster/node-requests.ts";
import type { Log } from "../lib/log.ts";
import type { SharedLimits } from "../lib/shared-limits.ts";
import { traceId } from "../lib/trace.ts";
import { fixed } from "../limits/fixed.ts";
import type { Limits } from "../limits/limits.ts";
import type { Endpoint } from "../mcp/endpoint.ts";
import { createAuthenticate } from "./access/authenticate.ts";
import { createChallenge } from "./access/challenge.ts";
import { recordRefusals } from "./access/record-refusals.ts";
import { createResources } from "./access/resources.ts";
import { createApp, type AppParts } from "./app.ts";
import { Bodies } from "./body.ts";
import { Connections } from "./connections.ts";
import { createHealth, type Readiness } from "./health.ts";
import { McpRoute } from "./mcp-route.ts";
import { OpenStreams } from "./open-streams.ts";
import { createOriginOf } from "./public-origin.ts";
import type { RequestContext } from "./request-context.ts";
import { createGuard, createLocate, RequestLimits, RequestPipeline, type PipelineSteps } from "./request-pipeline.ts";
import { Unread } from "./unread.ts";

/** A quiet connection is probed after this time. */
const KEEP_ALIVE_PROBE_MS = 30_000;

const bounds = fixed({
  /** How long the headers of a request may take to arrive. */
  headersMs: 10_000,
  /** How long a whole request may take to arrive. */
  requestMs: 30_000,
});
/** The headers of one request. */
const HEADER_BYTES = 16 * 1024;

export interface HttpOptions extends AppParts {
  readonly endpoint: Endpoint;
  /** This process among those of the service, and what they ask each other to do. */
  readonly cluster: Pick<Cluster, "id" | "others">;
  readonly errands: NodeRequests;
  readonly admission: Admission;
  /** By which several processes keep limits together. */
  readonly sharedLimits?: SharedLimits;
  readonly allowedHosts: readonly string[];
  /** The origins of other pages that may call Berth. */
  readonly allowedOrigins: readonly string[];
  /** The scheme and host that clients are told when they reach Berth through a proxy. */
  readonly publicUrl: string | undefined;
  /** The path in front of all of Berth's at that address; empty for none. */
  readonly publicPath: string;
  /** For how long changes of other processes may have gone unheard; without it, none can. */
  readonly unheardMs?: () => number;
  /** The name that stands for all servers. */
  readonly allServers: string;
  readonly limits: Limits;
}

/** One Node server. It answers health checks from the start, and everything else once `serve` is called. */
export interface HttpServer {
  readonly server: Server;
  serve(options: HttpOptions): void;
  /** Accepts no new connections; resolves when the clients of the others have left, each after its next answer. */
  retire(): Promise<void>;
  /** Accepts no new connections; resolves when the answers in progress are written. */
  drain(): Promise<void>;
}

export function createHttpServer(
  { limits, publicPath }: Pick<HttpOptions, "limits" | "publicPath">,
  readiness: Readiness,
  log: Log,
): HttpServer {
  const health = createHealth(readiness, publicPath);
  const logRequest = log.isLevelEnabled("debug") ? logRequests(log) : undefined;
  const server = createServer({
    // Events leave at once, and clients that vanish silently are noticed.
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: KEEP_ALIVE_PROBE_MS,
    maxHeaderSize: HEADER_BYTES,
    // Node allows no more time for the headers than for the whole request.
    headersTimeout: Math.min(bounds.headersMs, bounds.requestMs),
    requestTimeout: bounds.requestMs,
    keepAliveTimeout: limits.idleConnectionMs,
    connectionsCheckingInterval: Math.min(1_000, bounds.headersMs),
  });
  const connections = new Connections(server);
  const unread = new Unread(limits);
  const pipeline = new RequestPipeline({ connections, unread, health, logRequest, limits, log });
  server.on("request", pipeline.accept);
  server.maxConnections = limits.connections;
  return {
    server,
    serve: (options) => pipeline.serve(createSteps(options)),
    retire: () => connections.retire(),
    drain: () => connections.drain(),
  };
}

/**
 * The HTTP side of the host: the MCP endpoint in front, the Express application behind it. It knows no SQL, no compiler
 * and no child process.
 */
function createSteps(options: HttpOptions): PipelineSteps {
  const { limits, tenancy, allowedHosts, publicUrl, publicPath, access } = options;
  const hosts = publicUrl === undefined ? allowedHosts : [...allowedHosts, new URL(publicUrl).hostname];
  const origins = publicUrl === undefined ? options.allowedOrigins : [...options.allowedOrigins, publicUrl];
  const originOf = createOriginOf(publicUrl);
  const resources = createResources(options, tenancy);
  const isProxied = publicUrl !== undefined;
  const challenge = recordRefusals(createChallenge(access, resources), { ...options, isProxied });
  const streams = new OpenStreams(limits, options.admission, options.signIns);
  options.metrics.show({
    name: "berth_streams_open",
    help: "Answers and subscriptions that are open as streams",
    read: () => streams.open,
  });
  const bodies = new Bodies(limits);
  options.metrics.show({
    name: "berth_unfinished_body_bytes",
    help: "Received parts of incomplete request bodies",
    read: () => bodies.unfinishedBytes,
  });
  access.onRevoked((principalId) => streams.cut(principalId));
  const parts = { ...options, challenge, streams, bodies };
  const added = options.features.flatMap(({ mcpRoute }) => mcpRoute?.(parts) ?? []);
  const { required } = access;
  return {
    ...options,
    locate: createLocate(tenancy, publicUrl, publicPath),
    guard: createGuard({ allowedHosts: hosts, allowedOrigins: origins }, tenancy),
    requestLimits: new RequestLimits({
      ...options,
      anonymous: new AnonymousLimits(limits, options.sharedLimits),
      required,
      isProxied,
    }),
    authenticate: createAuthenticate(access, resources, options.signIns),
    routes: [...added, new McpRoute(parts), createApp({ ...parts, isProxied, resources, originOf })],
  };
}

/** Logs one line per request when its answer has ended, without its query, headers or body. */
function logRequests(log: Log): (context: RequestContext) => void {
  return (context) => {
    const { request, response, trace } = context;
    const beganAt = performance.now();
    // Later steps remove a tenant's prefix from the address.
    const { method, url = "" } = request;
    response.once("close", () => {
      const line = {
        requestId: trace.requestId,
        traceId: traceId(trace),
        method,
        path: url.replace(/[?#].*$/s, ""),
        status: response.statusCode,
        principal: context.principal?.id,
        complete: response.writableFinished,
        ms: Math.round((performance.now() - beganAt) * 1000) / 1000,
      };
      log.debug(line, "a request was answered");
    });
  };
}
