import type { IncomingMessage } from "node:http";
import express, { type ErrorRequestHandler, type Express, type Request, type RequestHandler } from "express";
import type { Access } from "../access/access.ts";
import type { Audit } from "../audit/audit.ts";
import { BerthError } from "../errors.ts";
import type { Edits } from "../host/edits/edits.ts";
import type { Host } from "../host/host.ts";
import type { Tenancy } from "../host/tenancy.ts";
import type { SecretEdits } from "../host/secret-edits.ts";
import type { Log } from "../log.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { tellable } from "../unforeseen.ts";
import { authenticated, type Authenticate } from "./access/authenticate.ts";
import { AUTHORIZATION_SERVER, noAuthorizationServer } from "./access/authorization-server.ts";
import type { Challenge } from "./access/challenge.ts";
import { administering, named, reading } from "./access/permit.ts";
import { protectedResource } from "./access/protected-resource.ts";
import { WELL_KNOWN, type Resources } from "./access/resources.ts";
import { sendSignIn, signIn, signInPage, signOut } from "./access/sign-in.ts";
import type { SignIns } from "./access/sign-ins.ts";
import { createApi, type ApiOptions } from "./api/api.ts";
import { openAssets } from "./assets.ts";
import type { Bodies } from "./body.ts";
import { allowOrigin, answerPreflight } from "./cors.ts";
import type { OpenStreams } from "./open-streams.ts";
import type { OriginOf } from "./origin.ts";
import { auditPage } from "./pages/audit.ts";
import { cidPage } from "./pages/cid.ts";
import { baseOf } from "./place.ts";
import { sendErrorPage, wantsPage, type ErrorOptions } from "./pages/error.ts";
import { metricsRoute } from "./metrics-route.ts";
import { mcpPage } from "./pages/mcp.ts";
import { metaPage } from "./pages/meta.ts";
import { pathsOf } from "./pages/parts/origin.ts";
import { createPages } from "./pages/pages.ts";
import { secretsPage } from "./pages/secrets.ts";
import { serverPage, serversPage } from "./pages/servers.ts";
import { warmUp } from "./pages/warm-up.ts";
import { variablePage, variablesPage, type VariablePageOptions } from "./pages/variables.ts";
import { REQUEST_ID_HEADER, traceOf } from "./trace.ts";
import { serversRoute, type ServersRouteOptions } from "./servers/servers-route.ts";
import { sayWhenToRetry } from "./write-answer.ts";

export interface AppOptions {
  readonly host: Host;
  readonly edits: Edits;
  readonly bodies: Bodies;
  readonly checks: ServersRouteOptions["checks"] & ApiOptions["checks"];
  readonly secrets: SecretEdits;
  readonly tenancy: Tenancy;
  readonly isolation: string;
  readonly guard: (request: IncomingMessage) => void;
  readonly access: Access;
  readonly audit: Audit;
  readonly isProxied: boolean;
  readonly authenticate: Authenticate;
  /** In front of what takes no token. */
  readonly forEverybody: RequestHandler;
  readonly challenge: Challenge;
  readonly resources: Resources;
  readonly signIns: SignIns;
  readonly originOf: OriginOf;
  readonly streams: OpenStreams;
  readonly metrics: Metrics;
  readonly limits: VariablePageOptions["limits"] & ServersRouteOptions["limits"] & ApiOptions["limits"];
  /** False on a read-only boot. */
  readonly writable: boolean;
  readonly log: Log;
}

/** The Express application: everything but POSTs to the MCP endpoint. Routes are named by their URL. */
export function createApp(options: AppOptions): Express {
  const app = express();
  const assets = openAssets();
  const pages = createPages(assets);
  app.disable("x-powered-by");
  app.use((request, response, next) => {
    options.guard(request);
    leaveOutLongWishes(request);
    if (FOR_CLIENTS.test(`${request.method} ${request.url}`)) allowOrigin(request, response);
    response.setHeader("X-Content-Type-Options", "nosniff");
    response.setHeader(REQUEST_ID_HEADER, traceOf(request).requestId);
    next();
  });
  const { forEverybody } = options;
  app.get("/", forEverybody, (request, response) => response.redirect(`${baseOf(request)}/mcp`));
  app.get("/assets/:file", forEverybody, assets.serve);
  app.options(["/mcp", "/mcp/:server", `${WELL_KNOWN}/*path`], forEverybody, answerPreflight);
  app.get(`${WELL_KNOWN}/*path`, forEverybody, protectedResource(options.access, options.resources, options.tenancy));
  app.all(AUTHORIZATION_SERVER, forEverybody, noAuthorizationServer);
  app.get("/sign-in", forEverybody, signInPage({ ...options, pages }));
  app.post("/sign-in", forEverybody, signIn({ ...options, pages }));
  app.post("/sign-out", forEverybody, signOut(options));
  app.use(authenticated(options.authenticate));
  app.get("/metrics", metricsRoute(options));
  app.get("/mcp", mcpPage({ ...options, pages }));
  app.get("/cid/:cid", reading(), cidPage({ ...options, pages }));
  app.get("/mcp/meta/:server", metaPage({ ...options, pages }));
  app.get("/variables", reading(), variablesPage({ ...options, pages }));
  app.get("/variables/:name", reading(), variablePage({ ...options, pages }));
  app.get("/secrets", reading(), secretsPage({ ...options, pages }));
  app.get("/audit", administering as RequestHandler, auditPage({ ...options, pages }));
  app.get("/servers", serversPage({ ...options, pages }));
  app.use(serversRoute(options));
  app.get("/servers/:name", reading(named), serverPage({ ...options, pages }));
  app.get("/mcp/:server", showServer);
  app.all("/mcp", refuseMethod);
  app.all("/mcp/:server", refuseMethod);
  app.use("/api", createApi(options));
  app.use((request) => {
    throw new BerthError("not_found", request.path);
  });
  app.use(showError({ ...options, pages }));
  warmUp(pages).catch((error: unknown) => options.log.warn({ err: error }, "pages are not warmed up"));
  return app;
}

/** Browsers send a tenth of it. */
const WISH_UNITS_MAX = 2_048;

/** What a client would rather have is compared with all that there is, part by part: a long wish counts as none. */
function leaveOutLongWishes({ headers }: IncomingMessage): void {
  for (const name of ["accept", "accept-encoding"]) {
    if (String(headers[name] ?? "").length > WISH_UNITS_MAX) delete headers[name];
  }
}

/** Where clients in pages of other origins read; they have no business in the API or on pages. */
const FOR_CLIENTS = /^\w+ \/(?:mcp(?:\/[^/?]+)?\/?(?:\?|$)|servers\/[^/?]+\/|\.well-known\/)|^POST \/servers\//;

/** An endpoint that a person opens shows the page about it (T9.2); a client's GET without events stays refused. */
const showServer: RequestHandler<{ server: string }> = (request, response, next) => {
  response.vary("Accept");
  if (!wantsPage(request)) return next();
  response.redirect(303, pathsOf(baseOf(request), request.params.server).page);
};

function refuseMethod(request: IncomingMessage): never {
  throw new BerthError("method_not_allowed", `${request.method}; MCP requests are sent by POST`);
}

// Express tells an error handler by its four parameters.
const showError =
  (options: ErrorOptions & Pick<AppOptions, "challenge" | "log">): ErrorRequestHandler =>
  async (error, request, response, next) => {
    if (response.headersSent) return next(error);
    // Express decodes the parts of an address itself.
    const known: unknown = error instanceof URIError ? new BerthError("not_found", "its escapes are broken") : error;
    const shown = tellable(known, traceOf(request).requestId, options.log, "a page failed");
    options.challenge(request, response, shown);
    if (shown.code === "method_not_allowed" && !response.hasHeader("Allow")) response.setHeader("Allow", "POST");
    sayWhenToRetry(response, shown);
    response.vary("Accept");
    if (wantsPage(request) && shown.status === 401) {
      return sendSignIn(options.pages, request, response, {
        status: 401,
        message: messageAt(shown),
        next: nextAt(request),
      });
    }
    if (wantsPage(request)) return sendErrorPage(options, request, response, shown);
    const { code, message, data } = shown;
    response.status(shown.status).json({ error: { code, message, ...(data && { data }) } });
  };

/** Nothing is wrong with who has not signed in yet. */
function messageAt({ code, message }: BerthError): string | undefined {
  return code === "token_missing" ? undefined : message;
}

/** Where a person wanted to be; what only a form or a script asks for is nowhere to come back to. */
function nextAt({ method, originalUrl }: Request): string | undefined {
  return method === "GET" ? originalUrl : undefined;
}
