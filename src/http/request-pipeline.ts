import type { IncomingMessage, ServerResponse } from "node:http";
import type { Principal } from "../access/principal.ts";
import type { Admission } from "../admission/admission.ts";
import type { AnonymousLimits } from "../admission/anonymous-limits.ts";
import { isLoopback } from "../config.ts";
import type { Tenancy } from "../host/serving/tenancy.ts";
import { BerthError } from "../lib/errors.ts";
import type { Log } from "../lib/log.ts";
import { DEFAULT_TENANT, isTenantName } from "../lib/tenant-name.ts";
import type { Limits } from "../limits/limits.ts";
import type { Authenticate } from "./access/authenticate.ts";
import { isOriginOf } from "./access/own-page.ts";
import type { Connections } from "./connections.ts";
import { allowOrigin } from "./cors.ts";
import type { createHealth } from "./health.ts";
import { hostnameOf } from "./hostname.ts";
import { peerOf } from "./peer.ts";
import { RequestContext, ROOT } from "./request-context.ts";
import type { Unread } from "./unread.ts";
import { writeFailure } from "./write-answer.ts";

/** A group of URLs, and how requests for them are handled. */
export interface Route {
  /** Decides by method, URL and headers alone; undefined for a request of another route. */
  match(context: RequestContext): Match | undefined;
  /** Writes the error response of a request that failed. */
  fail(context: RequestContext, error: unknown): void;
}

interface Match {
  /** True if pages of other origins may read the response: MCP clients in browsers. */
  readonly isForClients: boolean;
  /** True for URLs that need no authentication. */
  readonly isPublic?: boolean;
  /** The server that the URL of an MCP request names. */
  readonly name?: string | undefined;
  answer(context: RequestContext, name: string | undefined): void | Promise<void>;
}

interface RequestPipelineOptions {
  readonly connections: Connections;
  readonly unread: Unread;
  /** Answers health checks; false for every other request. */
  readonly health: ReturnType<typeof createHealth>;
  /** Logs each request, if requests are logged. */
  readonly logRequest: ((context: RequestContext) => void) | undefined;
  readonly limits: Pick<Limits, "databaseOutageMs">;
  readonly log: Log;
}

/** The parts that every request but a health check needs; they are opened while the server already listens. */
export interface PipelineSteps {
  readonly locate: (context: RequestContext) => void;
  readonly guard: (context: RequestContext) => void;
  readonly tenancy: Pick<Tenancy, "admit">;
  readonly requestLimits: RequestLimits;
  readonly authenticate: Authenticate;
  /** The first match handles a request; the last route matches every request. */
  readonly routes: readonly Route[];
  /** How long this node has not reached the database, so that it may have missed changes of other nodes. */
  readonly unheardMs?: () => number;
}

/** Requests of one connection that wait for earlier answers; above this, the connection is cut. */
const PIPELINED_REQUESTS = 32;

/**
 * The path of every request: health checks, and for the others locate → guard → route → limit → authenticate → answer.
 * Synchronous steps are not awaited, since a call is worth a few microseconds.
 */
export class RequestPipeline {
  readonly #options: RequestPipelineOptions;
  #steps: PipelineSteps | undefined;

  constructor(options: RequestPipelineOptions) {
    this.#options = options;
  }

  /** Until this is called, every request but a health check fails with `starting`. */
  serve(steps: PipelineSteps): void {
    this.#steps = steps;
  }

  /** The listener of the server's requests. */
  readonly accept = (request: IncomingMessage, response: ServerResponse): void => {
    const { connections, unread } = this.#options;
    const context = new RequestContext(request, response, connections.of(request.socket), unread);
    if (connections.isRetiring) response.shouldKeepAlive = false;
    if (response.socket) return void this.#handle(context);
    if (context.connection.isTooFarAhead(response, PIPELINED_REQUESTS)) return void request.socket.destroy();
    // A response created before the earlier ones have ended, which may be streams, would wait in memory until then.
    response.once("socket", () => setImmediate(() => void this.#handle(context)));
  };

  /** Never rejects: each route writes its own failures. */
  async #handle(context: RequestContext): Promise<void> {
    const { request, response } = context;
    if (request.socket.destroyed) return;
    if (request.url?.charCodeAt(0) !== SLASH) takeOriginForm(request);
    const { health, logRequest, limits, log } = this.#options;
    logRequest?.(context);
    if (health(request, response)) return;
    const steps = this.#steps;
    if (!steps) return writeFailure(context, starting(), log);
    const { locate, guard, requestLimits, unheardMs } = steps;
    locate(context);
    let refusal: unknown;
    try {
      guard(context);
      const missedMs = unheardMs?.() ?? 0;
      if (missedMs > limits.databaseOutageMs) throw stale(missedMs);
      const loading = loadTenant(steps, context);
      if (loading) await loading;
    } catch (error) {
      refusal = error;
    }
    // The client has disconnected.
    if (request.destroyed) return;
    const [route, match] = findRoute(steps, context);
    if (refusal !== undefined) return route.fail(context, refusal);
    try {
      requestLimits.enter(context, "received");
    } catch (error) {
      return this.#rejectCheaply(context, error);
    }
    try {
      if (match.isForClients) allowOrigin(request, response);
      if (match.isPublic === true) requestLimits.enter(context, "unauthenticated");
      else {
        const authenticating = authenticate(steps, context);
        if (authenticating) await authenticating;
      }
      const answering = match.answer(context, match.name);
      if (answering) await answering;
    } catch (error) {
      route.fail(context, error);
    }
  }

  /** Answers a client that exceeds a limit without an error page and without a challenge, which cost more. */
  async #rejectCheaply(context: RequestContext, error: unknown): Promise<void> {
    await context.connection.hold(error);
    writeFailure(context, error, this.#options.log);
  }
}

function starting(): BerthError {
  return new BerthError("starting", undefined, { data: { retryAfterSeconds: 1 } });
}

function findRoute({ routes }: PipelineSteps, context: RequestContext): readonly [Route, Match] {
  for (const route of routes) {
    const match = route.match(context);
    if (match) return [route, match];
  }
  throw new Error("the last route matches every request");
}

/** Runs after the guard, so that a client that it rejects does not learn which tenants exist. */
function loadTenant({ tenancy }: PipelineSteps, context: RequestContext): Promise<void> | undefined {
  const { claimed, refusal } = context;
  if (claimed === ROOT || refusal !== undefined) return undefined;
  const refuse = (error: unknown): void => void (context.refusal = error);
  try {
    return tenancy.admit(claimed.tenant)?.catch(refuse);
  } catch (error) {
    refuse(error);
    return undefined;
  }
}

/** Finds the principal of a request and counts the request against it; undefined if that was synchronous. */
function authenticate(steps: PipelineSteps, context: RequestContext): Promise<void> | undefined {
  try {
    const found = steps.authenticate(context);
    if (!(found instanceof Promise)) return admit(steps, context, found);
    return found
      .then((principal) => admit(steps, context, principal))
      .catch((error: unknown) => reject(steps, context, error));
  } catch (error) {
    return reject(steps, context, error);
  }
}

function admit({ requestLimits }: PipelineSteps, context: RequestContext, principal: Principal | undefined): undefined {
  context.principal = principal;
  requestLimits.enter(context, "authenticated");
}

/** Rejects with the error, later for a client that keeps exceeding a limit. */
async function reject({ requestLimits }: PipelineSteps, context: RequestContext, error: unknown): Promise<never> {
  let reported = error;
  try {
    if (!context.principal) requestLimits.enter(context, "unauthenticated");
  } catch (tooMany) {
    reported = tooMany;
  }
  await context.connection.hold(reported);
  throw reported;
}

/** A node that may have missed a revocation must not serve. */
function stale(unheardMs: number): BerthError {
  const silent = `this node has not reached the database for ${Math.round(unheardMs / 1_000)} s`;
  const detail = `${silent}, and serves again once it does; another node may`;
  return new BerthError("store_failed", detail, { data: { retryAfterSeconds: RETRY_AFTER_S } });
}

const RETRY_AFTER_S = 5;

const ABSOLUTE_FORM = /^https?:\/\/([^/?#@]+)((?:[/?].*)?)$/is;

/**
 * Turns a request for a whole address (RFC 9112, 3.2.2) into origin form. Its client has to name the same host in the
 * header (3.2); a request that names two hosts is left as it is, and leads nowhere.
 */
function takeOriginForm(request: IncomingMessage): void {
  const [, host, rest = ""] = ABSOLUTE_FORM.exec(request.url ?? "") ?? [];
  if (host === undefined || withoutPort(host) !== withoutPort(request.headers.host ?? "")) return;
  request.headers.host = host;
  request.url = rest.startsWith("/") ? rest : `/${rest}`;
}

function withoutPort(host: string): string {
  return host.toLowerCase().replace(/:\d*$/, "");
}

/** `/t/<tenant>` and the rest. Escapes and dots are not resolved: no other spelling leads to a tenant. */
const PREFIXED = /^(\/t\/([^/?]*))(.*)$/s;
const [T, SLASH] = [116, 47];
const HOSTNAMES_MAX = 256;

/**
 * Finds the tenant of a request: by its path prefix, which is removed, or by a host name mapped to a tenant. Every
 * other request is for `default`, and is not examined further. Never throws: an impossible tenant becomes the refusal
 * of the context, which is thrown when its tenant is read.
 */
export function createLocate(
  tenancy: Pick<Tenancy, "unmapped" | "findByHost">,
  publicUrl?: string,
  publicPath = "",
): (context: RequestContext) => void {
  const enter = publicUrl === undefined ? undefined : createEnter(publicUrl, publicPath);
  const root = publicPath === "" ? ROOT : { ...ROOT, base: publicPath };
  // Requests carry the same few headers; bounded, because anyone can send any.
  const hostnames = new Map<string, string>();
  const hostnameIn = (header: string): string => {
    let hostname = hostnames.get(header);
    if (hostname === undefined) {
      hostname = hostnameOf(`http://${header}`);
      if (hostnames.size < HOSTNAMES_MAX) hostnames.set(header, hostname);
    }
    return hostname;
  };

  return (context) => {
    const { request } = context;
    enter?.(request);
    context.claimed = root;
    const { url = "" } = request;
    const isPrefixed = url.charCodeAt(1) === T && url.charCodeAt(2) === SLASH;
    if (!isPrefixed && tenancy.unmapped) return;
    const mapped = tenancy.unmapped ? undefined : tenancy.findByHost(hostnameIn(request.headers.host ?? ""));
    if (!isPrefixed) {
      if (mapped !== undefined) context.claimed = { tenant: mapped, base: publicPath };
      return;
    }
    const [, base = "", named = "", rest = ""] = PREFIXED.exec(url) ?? [];
    context.claimed = { tenant: named, base: publicPath + base };
    // As in Express: links and logs use the whole address.
    (request as { originalUrl?: string }).originalUrl ??= url;
    request.url = rest.startsWith("/") ? rest : `/${rest}`;
    context.refusal = faultOfPrefix(named, mapped);
  };
}

/**
 * Gives a request from a proxy the port and the path of `publicUrl`, whether the proxy passed them on or not: nginx's `$host`
 * has no port.
 */
function createEnter(publicUrl: string, publicPath: string): (request: IncomingMessage) => void {
  const { port, hostname: publicName } = new URL(publicUrl);
  return (request) => {
    const { url = "", headers } = request;
    const { host } = headers;
    if (port !== "" && host !== undefined && !PORT.test(host)) {
      const isDirect = host !== publicName && isLoopback(hostnameOf(`http://${host}`));
      if (!isDirect) headers.host = `${host}:${port}`;
    }
    if (publicPath === "") return;
    const rest = url.slice(publicPath.length);
    const isWhole = url.startsWith(publicPath) && /^(?:[/?]|$)/.test(rest);
    (request as { originalUrl?: string }).originalUrl = isWhole ? url : publicPath + url;
    if (isWhole) request.url = rest.startsWith("/") ? rest : `/${rest}`;
  };
}

const PORT = /:\d*$/;

/** A tenant's host name leads to no other tenant: to browsers, all of its pages belong to one site. */
function faultOfPrefix(named: string, mapped: string | undefined): BerthError | undefined {
  if (named === DEFAULT_TENANT && mapped === undefined) {
    return new BerthError("tenant_not_found", `"${named}" is served without a prefix: leave out /t/${named}`);
  }
  if (!isTenantName(named) || (mapped !== undefined && mapped !== named)) {
    return new BerthError("tenant_not_found", `"${named}"`);
  }
  return undefined;
}

/**
 * Keeps other sites' pages away from a local service (DNS rebinding; 2026-07-28 `basic/transports/streamable-http`,
 * Security): the Host must be a known one, and an Origin, if there is one, must be our own or an allowed one. A page of
 * another program on this machine counts as another site. Pages at a tenant's host name may call only that tenant.
 */
export function createGuard(
  {
    allowedHosts,
    allowedOrigins,
  }: { readonly allowedHosts: readonly string[]; readonly allowedOrigins: readonly string[] },
  tenancy: Pick<Tenancy, "unmapped" | "findByHost">,
): (context: RequestContext) => void {
  const isKnown = (hostname: string): boolean => isLoopback(hostname) || allowedHosts.includes(hostname);
  // Requests carry the same few values, so accepted ones are remembered; bounded, because anyone can send any.
  const good = new Set<string>();
  const remember = (value: string): void => {
    if (good.size < 64) good.add(value);
  };

  return (context) => {
    const {
      url = "",
      headers: { host, origin },
      rawHeaders,
    } = context.request;
    // A host in the address would take precedence over the header.
    if (!url.startsWith("/")) throw new BerthError("not_found", url);
    checkRepeated(rawHeaders);
    if (host === undefined || !good.has(host)) {
      const hostname = hostnameOf(`http://${host ?? ""}`);
      if (isKnown(hostname)) remember(host!);
      // Not remembered: a tenant's host name can belong to another tenant the next time.
      else if (tenancy.findByHost(hostname) === undefined)
        throw new BerthError("forbidden_host", host ?? "there is none");
    }
    if (origin !== undefined && !tenancy.unmapped) {
      const owner = tenancy.findByHost(hostnameOf(origin));
      if (owner !== undefined && owner !== context.tenant) throw new BerthError("forbidden_origin", origin);
      if (owner !== undefined && portOf(origin) === portOf(`http://${host}`)) return;
    }
    if (origin !== undefined && !allowedOrigins.includes(origin) && !isOriginOf(origin, host)) {
      const remedy = "only pages of this service and of BERTH_ALLOWED_ORIGINS may call it";
      throw new BerthError("forbidden_origin", `${origin}; ${remedy}`);
    }
  };
}

function portOf(url: string): string {
  return URL.canParse(url) ? new URL(url).port : "";
}

/** Refuses repeated headers: Node keeps the first, a proxy in front of it may keep the last. */
function checkRepeated(rawHeaders: readonly string[]): void {
  let [hosts, authorizations] = [0, 0];
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const each = rawHeaders[index]!;
    if (each.length === HOST.length && each.toLowerCase() === HOST) hosts++;
    else if (each.length === AUTHORIZATION.length && each.toLowerCase() === AUTHORIZATION) authorizations++;
  }
  if (hosts > 1) throw new BerthError("forbidden_host", "there is more than one");
  if (authorizations > 1) throw new BerthError("invalid_request", "it has more than one Authorization header");
}

const HOST = "host";
const AUTHORIZATION = "authorization";

interface RequestLimitsOptions {
  readonly admission: Pick<Admission, "enter" | "enterAs">;
  readonly anonymous: Pick<AnonymousLimits, "enter">;
  /** True when a client without a token is refused. */
  readonly required: boolean;
  /** True when a proxy is configured, which states where requests come from. */
  readonly isProxied: boolean;
}

/**
 * Counts each request until its response ends, against the limits of its tenant and of its sender. If no token is
 * required, every request counts against its tenant. Otherwise, only requests of token holders do, so that anonymous
 * callers cannot use up a tenant's share: their requests count against their IP address.
 */
export class RequestLimits {
  readonly #options: RequestLimitsOptions;

  constructor(options: RequestLimitsOptions) {
    this.#options = options;
  }

  /**
   * Counts a request in each of its phases: `received`, then `authenticated`, or `unauthenticated` if its credential is
   * invalid or not needed. Throws `too_many_requests`.
   */
  enter(context: RequestContext, phase: "received" | "authenticated" | "unauthenticated"): void {
    const { admission, anonymous, required, isProxied } = this.#options;
    const { principal, servedTenant } = context;
    if (phase === "authenticated") {
      if (!principal) return;
      if (required) context.atClose(admission.enter(principal.tenant));
      context.atClose(admission.enterAs(principal));
    } else if (required) {
      // With a credential, the caller is anonymous only once it has turned out to be invalid or not needed.
      const { authorization, cookie } = context.request.headers;
      const hasCredential = authorization !== undefined || cookie !== undefined;
      const isAnonymous = hasCredential === (phase === "unauthenticated");
      if (isAnonymous) context.atClose(anonymous.enter(peerOf(context.request, isProxied)));
    } else if (phase === "received" && servedTenant !== undefined) {
      // The route itself rejects a request for a tenant that is not served.
      context.atClose(admission.enter(servedTenant));
    }
  }
}
