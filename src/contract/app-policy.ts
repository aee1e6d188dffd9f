import { isObject } from "../lib/json.ts";

/**
 * The origins that the page of an app may reach: those that `_meta.ui.csp` of its contents declares, as far as they are
 * origins, and none of Berth's own. The rest is refused by default, as the specification of apps asks.
 */
export interface AppOrigins {
  readonly connectDomains?: readonly string[];
  readonly resourceDomains?: readonly string[];
  readonly frameDomains?: readonly string[];
  readonly baseUriDomains?: readonly string[];
}

const LISTS = ["connectDomains", "resourceDomains", "frameDomains", "baseUriDomains"] as const;

/** Origins of one list that count; a page needs a few. */
const ORIGINS_MAX = 64;

/** `leftOut` are the texts, in order, that were declared and are not allowed. `own` is an origin of Berth's. */
export function allowedOrigins(declared: unknown, own: string): { allowed: AppOrigins; leftOut: string[] } {
  const leftOut: string[] = [];
  const allowed: { -readonly [List in keyof AppOrigins]: string[] } = {};
  for (const list of LISTS) {
    const given = isObject(declared) ? declared[list] : undefined;
    if (!Array.isArray(given)) continue;
    const origins: string[] = [];
    for (const each of given as unknown[]) {
      const text = typeof each === "string" ? each.replace(/\/$/, "") : "";
      if (origins.length < ORIGINS_MAX && ORIGIN.test(text) && !reaches(text, own)) origins.push(text);
      else leftOut.push(String(each).slice(0, SHOWN_UNITS));
    }
    if (origins.length > 0) allowed[list] = origins;
  }
  return { allowed, leftOut: leftOut.slice(0, ORIGINS_MAX) };
}

const SHOWN_UNITS = 200;
const ORIGIN = /^(?:https?|wss?):\/\/(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*(?::\d{1,5})?$/i;

/** An app has no business with Berth but the calls that its host makes for it. */
function reaches(origin: string, own: string): boolean {
  const [there, here] = [parts(origin), parts(own)];
  if (there.port !== here.port) return false;
  if (there.host.startsWith("*.")) return here.host.endsWith(there.host.slice(1));
  return there.host === here.host || (isThisMachine(there.host) && isThisMachine(here.host));
}

function parts(origin: string): { host: string; port: string } {
  const [, scheme = "", host = "", port] = /^(\w+):\/\/(.*?)(?::(\d+))?$/.exec(origin.toLowerCase()) ?? [];
  const isSecure = scheme === "https" || scheme === "wss";
  return { host: host.replace(/\.$/, ""), port: String(Number(port ?? (isSecure ? 443 : 80))) };
}

function isThisMachine(host: string): boolean {
  return /^(?:localhost|.*\.localhost|127\.[\d.]+|0\.0\.0\.0|0|\[.*\])$/.test(host);
}

/** The value of `Content-Security-Policy`. It never says `'self'`: the page of an app comes from Berth's own address. */
export function policyOf({ connectDomains, resourceDomains, frameDomains, baseUriDomains }: AppOrigins): string {
  const from = (list: readonly string[] = [], ...more: string[]): string => {
    const sources = [...more, ...list];
    return sources.length > 0 ? sources.join(" ") : "'none'";
  };
  return [
    "sandbox allow-scripts",
    "default-src 'none'",
    `script-src ${from(resourceDomains, "'unsafe-inline'")}`,
    `style-src ${from(resourceDomains, "'unsafe-inline'")}`,
    `img-src ${from(resourceDomains, "data:", "blob:")}`,
    `font-src ${from(resourceDomains, "data:")}`,
    `media-src ${from(resourceDomains, "data:", "blob:")}`,
    `connect-src ${from(connectDomains)}`,
    `frame-src ${from(frameDomains)}`,
    `base-uri ${from(baseUriDomains)}`,
    "object-src 'none'",
    "form-action 'none'",
    "frame-ancestors 'self'",
  ].join("; ");
}
