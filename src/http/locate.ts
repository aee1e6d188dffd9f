import { BerthError } from "../lib/errors.ts";
import type { Tenancy } from "../host/tenancy.ts";
import { DEFAULT_TENANT, isTenantName } from "../lib/tenant-name.ts";
import { hostnameOf } from "./hostname.ts";
import type { RequestContext } from "./request-context.ts";

/** `/t/<tenant>`, and what comes after it. Nothing is made of escapes and dots: no other spelling leads to a tenant. */
const PREFIXED = /^(\/t\/([^/?]*))(.*)$/s;
const [T, SLASH] = [116, 47];
const HOSTNAMES_MAX = 256;

/**
 * Finds out which tenant a request is for: by the beginning of its path, which is taken off, or by a host name that
 * stands for a tenant. Everything else is for `default`, and is looked at no further. Never throws: a tenant that cannot
 * be becomes the refusal of the context, which whoever asks for its tenant is told.
 */
export function createLocate(tenancy: Pick<Tenancy, "unmapped" | "ofHost">): (context: RequestContext) => void {
  // The same few headers come with every request; bounded, because anyone can send any.
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
    // As Express has it: links and logs are made of the whole address.
    (request as { originalUrl?: string }).originalUrl = url;
    request.url = rest.startsWith("/") ? rest : `/${rest}`;
    context.refusal = faultOfPrefix(named, mapped);
  };
}

/** A host name of one tenant leads to no other: to browsers, all of its pages are of one site. */
function faultOfPrefix(named: string, mapped: string | undefined): BerthError | undefined {
  if (named === DEFAULT_TENANT && mapped === undefined) {
    return new BerthError("tenant_not_found", `"${named}" is served without a prefix: leave out /t/${named}`);
  }
  if (!isTenantName(named) || (mapped !== undefined && mapped !== named)) {
    return new BerthError("tenant_not_found", `"${named}"`);
  }
  return undefined;
}
