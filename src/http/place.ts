import type { IncomingMessage } from "node:http";
import { BerthError } from "../errors.ts";
import type { Tenancy } from "../host/tenancy.ts";
import { DEFAULT_TENANT, isTenantName } from "../tenant-name.ts";
import { hostnameOf } from "./hostname.ts";

/** Whom a request is for, and what stands before the paths of its addresses: `""` or `/t/<tenant>`. */
export interface Place {
  readonly tenant: string;
  readonly base: string;
}

/** The tenant of a request. Throws `tenant_not_found` or `tenant_suspended`. */
export function tenantOf(request: IncomingMessage): string {
  return placeOf(request).tenant;
}

/** What every link to another address of the same tenant begins with, whether the tenant is served or not. */
export function baseOf(request: IncomingMessage): string {
  return (request as Placed)[PLACE]?.base ?? "";
}

/**
 * Whom a request is meant for, whether or not there is such a tenant: for those who are told nothing of that yet.
 * `refusal` is what `placeOf` throws.
 */
export function claimedPlaceOf(request: IncomingMessage): Place & { readonly refusal?: unknown } {
  return (request as Placed)[PLACE] ?? ROOT;
}

/** Both at once. Throws as `tenantOf`. */
export function placeOf(request: IncomingMessage): Place {
  const place = (request as Placed)[PLACE] ?? ROOT;
  if ("refusal" in place) throw place.refusal;
  return place;
}

const PLACE = Symbol("place");
const ROOT: Place = { tenant: DEFAULT_TENANT, base: "" };

interface Refused extends Place {
  readonly refusal: unknown;
}

type Placed = IncomingMessage & { [PLACE]?: Place | Refused; originalUrl?: string };

/** `/t/<tenant>`, and what comes after it. Nothing is made of escapes and dots: no other spelling leads to a tenant. */
const PREFIXED = /^(\/t\/([^/?]*))(.*)$/s;
const [T, SLASH] = [116, 47];
const HOSTNAMES_MAX = 256;

/**
 * Finds out whom a request is for: by the beginning of its path, which is taken off, or by a host name that stands for
 * a tenant. Everything else is for `default`, and is looked at no further. What it gives is awaited before the request
 * is answered; a tenant that is not served is told by whoever asks for the request's tenant.
 */
export function createPlaces(
  tenancy: Tenancy,
  guard: (request: IncomingMessage) => void,
): (request: IncomingMessage) => Promise<void> | undefined {
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

  return (request) => {
    const { url = "" } = request;
    const isPrefixed = url.charCodeAt(1) === T && url.charCodeAt(2) === SLASH;
    if (!isPrefixed && tenancy.unmapped) return undefined;
    const mapped = tenancy.unmapped ? undefined : tenancy.ofHost(hostnameIn(request.headers.host ?? ""));
    if (!isPrefixed && mapped === undefined) return undefined;

    const placed = request as Placed;
    const [, base = "", named = "", rest = ""] = (isPrefixed && PREFIXED.exec(url)) || [];
    const refuse = (refusal: unknown): void =>
      void (placed[PLACE] = { tenant: isPrefixed ? named : mapped!, refusal, base });
    if (isPrefixed) {
      placed.originalUrl = url;
      placed.url = rest.startsWith("/") ? rest : `/${rest}`;
    }
    try {
      const tenant = isPrefixed ? prefixedTenant(named, mapped) : mapped!;
      placed[PLACE] = { tenant, base };
      // Who may ask nothing here does not learn which tenants there are.
      guard(request);
      return tenancy.admit(tenant)?.catch(refuse);
    } catch (error) {
      refuse(error);
      return undefined;
    }
  };
}

/** A host name of one tenant leads to no other: to browsers, all of its pages are of one site. */
function prefixedTenant(named: string, mapped: string | undefined): string {
  if (named === DEFAULT_TENANT && mapped === undefined) {
    throw new BerthError("tenant_not_found", `"${named}" is served without a prefix: leave out /t/${named}`);
  }
  if (!isTenantName(named) || (mapped !== undefined && mapped !== named)) {
    throw new BerthError("tenant_not_found", `"${named}"`);
  }
  return named;
}
