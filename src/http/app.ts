import type { IncomingMessage } from "node:http";
import express from "express";
import type { ErrorRequestHandler, RequestHandler } from "express";
import type { Audit } from "../audit/audit.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Tenancy } from "../host/serving/tenancy.ts";
import { toClientError } from "../lib/error-mapping.ts";
import { BerthError } from "../lib/errors.ts";
import type { Log } from "../lib/log.ts";
import type { Challenge } from "./access/challenge.ts";
import {
  AUTHORIZATION_SERVER,
  noAuthorizationServer,
  protectedResource,
  WELL_KNOWN,
  type Resources,
} from "./access/resources.ts";
import { sendSignIn, signIn, signInPage, signOut, type SignIns } from "./access/sign-in.ts";
import type { ApiOptions } from "./api/add-route.ts";
import { createApi } from "./api/api.ts";
import { APP_FRAME, appFrame } from "./app-frame.ts";
import { openAssets } from "./assets.ts";
import type { Bodies } from "./body.ts";
import { answerPreflight } from "./cors.ts";
import type { Figure } from "./feature-routes.ts";
import { MCP_PATH } from "./mcp-path.ts";
import type { OpenStreams } from "./open-streams.ts";
import { cidPage } from "./pages/cid.ts";
import { sendErrorPage, wantsPage, type ErrorOptions } from "./pages/error.ts";
import { mcpPage } from "./pages/mcp.ts";
import { metaPage } from "./pages/meta.ts";
import { newServerPage } from "./pages/new-server.ts";
import { packagesPage } from "./pages/packages.ts";
import { createPages } from "./pages/pages.ts";
import { pathsOf } from "./pages/parts/paths.ts";
import { serverPage, serversPage } from "./pages/servers.ts";
import { variablePage, variablesPage } from "./pages/variables.ts";
import type { OriginOf } from "./public-origin.ts";
import { REQUEST_ID_HEADER, type RequestContext } from "./request-context.ts";
import type { Route } from "./request-pipeline.ts";
import { contextOf, handOn, routed } from "./routed.ts";
import { serversRoute, type ServersRouteOptions } from "./servers-route.ts";
import { sayWhenToRetry } from "./write-answer.ts";

/** Every page of the core but those of errors and of signing in: each is a file in `pages/`, with its template in `views/pages/`. */
const allPages = [
  cidPage,
  mcpPage,
  metaPage,
  // Before the page of a server of that name.
  newServerPage,
  packagesPage,
  serverPage,
  serversPage,
  variablePage,
  variablesPage,
];

/** The parts of the service that HTTP serves. */
export interface AppParts extends Omit<ApiOptions, "bodies" | "checks"> {
  readonly checks: ServersRouteOptions["checks"] & ApiOptions["checks"];
  readonly audit: Audit;
  readonly tenancy: Tenancy;
  readonly cluster: Pick<Cluster, "others">;
  /** The isolation of guest code, for pages to show. */
  readonly isolation: string;
  /** Why it is not the complete sandbox; empty if it is. */
  readonly sandboxNote: string;
  readonly signIns: SignIns;
  readonly metrics: { show(figure: Figure): void };
  /** False on a read-only boot. */
  readonly writable: boolean;
  readonly log: Log;
}

interface AppOptions extends AppParts {
  readonly bodies: Bodies;
  readonly isProxied: boolean;
  readonly publicPath: string;
  readonly challenge: Challenge;
  readonly resources: Resources;
  readonly originOf: OriginOf;
  readonly streams: OpenStreams;
}

/** The Express application: everything but the MCP endpoint. Routes are named by their URL. */
export function createApp(options: AppOptions): Route {
  const app = express();
  const assets = openAssets(options.publicPath);
  const added = options.features.flatMap(({ pages = [] }) => pages);
  const sections = options.features.flatMap(({ sections = [] }) => sections);
  const setups = options.features.flatMap(({ setups = [] }) => setups);
  const calls = options.features.find((each) => each.calls)?.calls;
  const secrets = options.features.find((each) => each.secrets)?.secrets;
  const newServerParts = options.features.flatMap(({ newServer = [] }) => newServer);
  const pages = createPages(assets, options.writable, sections);
  const parts = { ...options, pages, setups, calls, secrets, newServerParts };
  app.disable("x-powered-by");
  app.use((request, response, next) => {
    const { failure, trace } = contextOf(response);
    leaveOutLongWishes(request);
    response.setHeader("X-Content-Type-Options", "nosniff");
    response.setHeader(REQUEST_ID_HEADER, trace.requestId);
    if (failure !== undefined) throw failure;
    next();
  });
  app.get(
    "/",
    routed(({ response, base }) => response.redirect(`${base}/mcp`)),
  );
  app.get("/assets/:file", assets.serve);
  app.get(APP_FRAME, routed(appFrame(options.originOf)));
  app.options([MCP_PATH, `${WELL_KNOWN}/*path`], answerPreflight);
  app.get(`${WELL_KNOWN}/*path`, routed(protectedResource(options.access, options.resources, options.tenancy)));
  app.all(AUTHORIZATION_SERVER, noAuthorizationServer);
  app.get("/sign-in", routed(signInPage(parts)));
  app.post("/sign-in", routed(signIn(parts)));
  app.post("/sign-out", routed(signOut(options)));
  app.use((request, _response, next) => {
    // However Express parses an address, a request that skipped authentication reaches nothing below.
    if (isPublic(request)) throw new BerthError("not_found", request.path);
    next();
  });
  // A page of a server has the address of its function: what does not ask for a page is a call.
  app.use(serversRoute(options));
  for (const page of [...allPages, ...added]) app.get(page.path, routed(page.create(parts), page.permit));
  app.get(MCP_PATH, showServer);
  app.all(MCP_PATH, refuseMethod);
  app.use("/api", createApi(options));
  app.use((request) => {
    throw new BerthError("not_found", request.path);
  });
  app.use(showError(parts));

  const answer = (context: RequestContext): void => {
    context.response.once("prefinish", () => context.unread.watchRest(context));
    handOn(context, app);
  };
  return {
    match: ({ request }) => ({
      isForClients: isForClients(request),
      isPublic: isPublic(request),
      answer,
    }),
    fail(context, error) {
      context.failure = error;
      answer(context);
    },
  };
}

/** True for addresses that are open to everybody, with or without a token: none serves what a tenant has written. */
function isPublic({ method, url = "" }: IncomingMessage): boolean {
  return PUBLIC.test(url) || (method === "OPTIONS" && MCP_PATH.test(url));
}

const PUBLIC =
  /^\/(?:assets\/[^/?]+|app-frame|sign-in|sign-out|authorize|token|register|\.well-known\/[^?]+)?\/?(?:\?|$)/;

/** Browsers send a tenth of this. */
const WISH_UNITS_MAX = 2_048;

/** Drops long Accept headers: each of their parts would be compared with everything on offer. */
function leaveOutLongWishes({ headers }: IncomingMessage): void {
  for (const name of ["accept", "accept-encoding"]) {
    if (String(headers[name] ?? "").length > WISH_UNITS_MAX) delete headers[name];
  }
}

/** True for addresses that clients in pages of other origins may read: neither the API nor pages. */
function isForClients({ method, url = "" }: IncomingMessage): boolean {
  return MCP_PATH.test(url) || FOR_CLIENTS.test(`${method} ${url}`);
}

const FOR_CLIENTS = /^\w+ \/(?:servers\/[^/?]+\/|\.well-known\/)|^POST \/servers\//;

/** A person who opens an endpoint gets the page about it (T9.2); a client's GET without events stays refused. */
const showServer: RequestHandler = (request, response, next) => {
  response.vary("Accept");
  const server = request.params[0];
  if (typeof server !== "string" || !wantsPage(request)) return next();
  response.redirect(303, pathsOf(contextOf(response).base, server).page);
};

function refuseMethod(request: IncomingMessage): never {
  throw new BerthError("method_not_allowed", `${request.method}; send MCP requests by POST`);
}

// Express recognizes an error handler by its four parameters.
const showError =
  (options: ErrorOptions & Pick<AppOptions, "challenge" | "log">): ErrorRequestHandler =>
  async (error, request, response, next) => {
    if (response.headersSent) return next(error);
    // Express decodes the parts of an address itself.
    const known: unknown =
      error instanceof URIError ? new BerthError("not_found", "its percent-encoding is broken") : error;
    const context = contextOf(response);
    const shown = toClientError(known, context.trace.requestId, options.log, "a page failed");
    options.challenge(context, shown);
    if (shown.code === "method_not_allowed" && !response.hasHeader("Allow")) response.setHeader("Allow", "POST");
    sayWhenToRetry(response, shown);
    response.vary("Accept");
    if (wantsPage(request) && shown.status === 401) {
      return sendSignIn(options.pages, context, {
        status: 401,
        // A person who has not signed in yet has done nothing wrong.
        message: shown.code === "token_missing" ? undefined : shown.message,
        // The address of a form or a script is not a page to return to.
        next: request.method === "GET" ? request.originalUrl : undefined,
      });
    }
    if (wantsPage(request)) return sendErrorPage(options, context, shown);
    const { code, message, data } = shown;
    response.status(shown.status).json({ error: { code, message, ...(data && { data }) } });
  };
