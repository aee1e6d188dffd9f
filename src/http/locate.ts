import { BerthError } from "../lib/errors.ts";
import type { Tenancy } from "../host/serving/tenancy.ts";
import { DEFAULT_TENANT, isTenantName } from "../lib/tenant-name.ts";
import { hostnameOf } from "./hostname.ts";
import type { RequestContext } from "./request-context.ts";

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
