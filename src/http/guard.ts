import { isLoopback } from "../config.ts";
import { BerthError } from "../lib/errors.ts";
import { isOriginOf } from "./access/own-page.ts";
import type { Tenancy } from "../host/serving/tenancy.ts";
import { hostnameOf } from "./hostname.ts";
import type { RequestContext } from "./request-context.ts";

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
      const remedy = "only pages of this service may call it, and those of BERTH_ALLOWED_ORIGINS";
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
