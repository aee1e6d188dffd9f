import type { IncomingMessage } from "node:http";
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
import { allowOrigin } from "./cors.ts";
import { hostnameOf } from "./hostname.ts";
import { peerOf } from "./peer.ts";
import { ROOT, type RequestContext } from "./request-context.ts";
import { writeFailure } from "./write-answer.ts";

/** Addresses of one kind, and how requests for them are answered. */
export interface Route {
  /** Decides by method, address and headers alone; undefined for a request of another route. */
  match(context: RequestContext): Match | undefined;
  /** Writes the error that kept a request from its answer. */
  fail(context: RequestContext, error: unknown): void;
}

interface Match {
  /** True when pages of other origins may read the answer: clients in browsers. */
  readonly isForClients: boolean;
  /** True for addresses open to everybody, without authentication. */
  readonly isPublic?: boolean;
  answer(context: RequestContext): void | Promise<void>;
}

interface RequestPipelineOptions {
  readonly locate: (context: RequestContext) => void;
  readonly guard: (context: RequestContext) => void;
  readonly tenancy: Pick<Tenancy, "admit">;
  readonly requestLimits: RequestLimits;
  readonly authenticate: Authenticate;
  /** The first match answers; the last route matches everything. */
  readonly routes: readonly Route[];
  /** For how long changes of other processes may have gone unheard. */
  readonly unheardMs?: () => number;
  readonly limits: Pick<Limits, "databaseOutageMs">;
  readonly log: Log;
}

/**
 * The path of every request except health checks: locate → guard → route → limit → authenticate → answer. Synchronous
 * steps are not awaited, since a call is worth a few microseconds.
 */
export function createRequestPipeline(options: RequestPipelineOptions): (context: RequestContext) => void {
  const { locate, guard, requestLimits, routes, unheardMs = () => 0, limits } = options;

  return (context) => void handleRequest(context);

  async function handleRequest(context: RequestContext): Promise<void> {
    locate(context);
    let refusal: unknown;
    try {
      guard(context);
      if (unheardMs() > limits.databaseOutageMs) throw stale(unheardMs());
      const loading = loadTenant(context);
      if (loading) await loading;
    } catch (error) {
      refusal = error;
    }
    // A client that has left meanwhile sends nothing more.
    if (context.request.destroyed) return;
    const [route, match] = routeOf(context);
    if (refusal !== undefined) return route.fail(context, refusal);
    try {
      requestLimits.enter(context);
    } catch (error) {
      return refuseAtOnce(context, error);
    }
    try {
      if (match.isForClients) allowOrigin(context.request, context.response);
      if (match.isPublic === true) requestLimits.enterUnknown(context);
      else {
        const identifying = identify(context);
        if (identifying) await identifying;
      }
      const answering = match.answer(context);
      if (answering) await answering;
    } catch (error) {
      route.fail(context, error);
    }
  }

  function routeOf(context: RequestContext): readonly [Route, Match] {
    for (const route of routes) {
      const match = route.match(context);
      if (match) return [route, match];
    }
    throw new Error("the last route matches every request");
  }

  /** Runs after the guard: a client that may ask nothing here does not learn which tenants exist. */
  function loadTenant(context: RequestContext): Promise<void> | undefined {
    const { claimed, refusal } = context;
    if (claimed === ROOT || refusal !== undefined) return undefined;
    const refuse = (error: unknown): void => void (context.refusal = error);
    try {
      return options.tenancy.admit(claimed.tenant)?.catch(refuse);
    } catch (error) {
      refuse(error);
      return undefined;
    }
  }

  /** Finds the principal of a request and counts the request against it; undefined when that was synchronous. */
  function identify(context: RequestContext): Promise<void> | undefined {
    try {
      const found = options.authenticate(context);
      if (!(found instanceof Promise)) return countTo(found, context);
      return found.then((principal) => countTo(principal, context)).catch((error: unknown) => refuse(context, error));
    } catch (error) {
      return refuse(context, error);
    }
  }

  function countTo(principal: Principal | undefined, context: RequestContext): undefined {
    context.principal = principal;
    requestLimits.enterKnown(context);
  }

  /** Refuses a request; a client that keeps exceeding a limit hears of it later. */
  async function refuse(context: RequestContext, error: unknown): Promise<never> {
    let told = error;
    try {
      if (!context.principal) requestLimits.enterUnknown(context);
    } catch (tooMany) {
      told = tooMany;
    }
    await context.connection.hold(told);
    throw told;
  }

  /** Refuses a client that sends too much at almost no cost: without a page of Berth's, and without a challenge. */
  async function refuseAtOnce(context: RequestContext, error: unknown): Promise<void> {
    await context.connection.hold(error);
    writeFailure(context, error, options.log);
  }
}

/** A node that cannot have heard of what was revoked must not serve it. */
function stale(unheardMs: number): BerthError {
  const silent = `this node has not reached the database for ${Math.round(unheardMs / 1_000)} s`;
  const detail = `${silent}, and serves again once it does; another node may`;
  return new BerthError("store_failed", detail, { data: { retryAfterSeconds: RETRY_AFTER_S } });
}

const RETRY_AFTER_S = 5;

/** `/t/<tenant>` and the rest. Escapes and dots are not resolved: no other spelling leads to a tenant. */
const PREFIXED = /^(\/t\/([^/?]*))(.*)$/s;
const [T, SLASH] = [116, 47];
const HOSTNAMES_MAX = 256;

/**
 * Finds the tenant of a request: by its path prefix, which is removed, or by a host name mapped to a tenant. Every
 * other request is for `default`, and is not examined further. Never throws: an impossible tenant becomes the refusal
 * of the context, which is thrown when its tenant is read.
 */
export function createLocate(tenancy: Pick<Tenancy, "unmapped" | "ofHost">): (context: RequestContext) => void {
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
    const { url = "" } = request;
    const isPrefixed = url.charCodeAt(1) === T && url.charCodeAt(2) === SLASH;
    if (!isPrefixed && tenancy.unmapped) return;
    const mapped = tenancy.unmapped ? undefined : tenancy.ofHost(hostnameIn(request.headers.host ?? ""));
    if (!isPrefixed) {
      if (mapped !== undefined) context.claimed = { tenant: mapped, base: "" };
      return;
    }
    const [, base = "", named = "", rest = ""] = PREFIXED.exec(url) ?? [];
    context.claimed = { tenant: named, base };
    // As in Express: links and logs use the whole address.
    (request as { originalUrl?: string }).originalUrl = url;
    request.url = rest.startsWith("/") ? rest : `/${rest}`;
    context.refusal = faultOfPrefix(named, mapped);
  };
}

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
  tenancy: Pick<Tenancy, "unmapped" | "ofHost">,
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
      else if (tenancy.ofHost(hostname) === undefined) throw new BerthError("forbidden_host", host ?? "there is none");
    }
    if (origin !== undefined && !tenancy.unmapped) {
      const owner = tenancy.ofHost(hostnameOf(origin));
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
 * Counts each request until it is answered, against the limits of its tenant and of its sender. Where no token is
 * required, every request counts against its tenant. Where one is, only those of token holders do, so that nobody else
 * can use up a tenant's share; all others count against their address. Each method throws `too_many_requests`.
 */
export class RequestLimits {
  readonly #options: RequestLimitsOptions;

  constructor(options: RequestLimitsOptions) {
    this.#options = options;
  }

  /** Counts a request before authentication; where a token is required, one with a credential is counted after it. */
  enter(context: RequestContext): void {
    const { admission, required } = this.#options;
    if (required) {
      if (!hasCredential(context.request)) this.#enterAnonymous(context);
      return;
    }
    // The route refuses a tenant that is not served in its own way.
    if (context.servedTenant !== undefined) context.atClose(admission.enter(context.servedTenant));
  }

  /** Counts a request after authentication. */
  enterKnown(context: RequestContext): void {
    const { admission, required } = this.#options;
    const { principal } = context;
    if (!principal) return;
    if (required) context.atClose(admission.enter(principal.tenant));
    context.atClose(admission.enterAs(principal));
  }

  /** Counts a request whose credential is not asked for, or is invalid. */
  enterUnknown(context: RequestContext): void {
    if (this.#options.required && hasCredential(context.request)) this.#enterAnonymous(context);
  }

  #enterAnonymous(context: RequestContext): void {
    const { anonymous, isProxied } = this.#options;
    context.atClose(anonymous.enter(peerOf(context.request, isProxied)));
  }
}

function hasCredential({ headers: { authorization, cookie } }: IncomingMessage): boolean {
  return authorization !== undefined || cookie !== undefined;
}
