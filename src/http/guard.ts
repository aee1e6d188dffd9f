import { isLoopback } from "../config.ts";
import { BerthError } from "../lib/errors.ts";
import { isOriginOf } from "./access/own-page.ts";
import type { Tenancy } from "../host/tenancy.ts";
import { hostnameOf } from "./hostname.ts";
import type { RequestContext } from "./request-context.ts";

/**
 * Keeps other sites' pages away from a local service (DNS rebinding; 2026-07-28 `basic/transports/streamable-http`,
 * Security): the Host must be one that we are known by, and an Origin, when there is one, must be our own or one that
 * is allowed. A page of another program of this machine is another site's. Pages at a tenant's host name may call that
 * tenant, and no other one.
 */
export function createGuard(
  {
    allowedHosts,
    allowedOrigins,
  }: { readonly allowedHosts: readonly string[]; readonly allowedOrigins: readonly string[] },
  tenancy: Pick<Tenancy, "unmapped" | "ofHost">,
): (context: RequestContext) => void {
  const isKnown = (hostname: string): boolean => isLoopback(hostname) || allowedHosts.includes(hostname);
  // The same few values come with every request, so what was judged once is remembered; bounded, because anyone can send any.
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
    // An address with a host of its own would go before the header.
    if (!url.startsWith("/")) throw new BerthError("not_found", url);
    checkRepeated(rawHeaders);
    if (host === undefined || !good.has(host)) {
      const hostname = hostnameOf(`http://${host ?? ""}`);
      if (isKnown(hostname)) remember(host!);
      // What stands for a tenant can be another one's the next time.
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

/** Of repeated ones Node keeps the first, a proxy in front of it maybe the last. */
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
