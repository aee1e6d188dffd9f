import { isObject } from "../lib/json.ts";

/**
 * The origins that the page of an app may reach: those that `_meta.ui.csp` of its contents declares, if they are valid
 * and not Berth's own. Everything else is blocked by default, as the MCP Apps specification requires.
 */
export interface AppOrigins {
  readonly connectDomains?: readonly string[];
  readonly resourceDomains?: readonly string[];
  readonly frameDomains?: readonly string[];
  readonly baseUriDomains?: readonly string[];
}

const LISTS = ["connectDomains", "resourceDomains", "frameDomains", "baseUriDomains"] as const;

/** Limit of origins in one list; a page needs a few. */
const ORIGINS_MAX = 64;

/** `leftOut` are the declared values that are not allowed, in order. `own` is an origin of Berth. */
export function allowedOrigins(declared: unknown, own: string): { allowed: AppOrigins; leftOut: string[] } {
  const leftOut: string[] = [];
  const allowed: { -readonly [List in keyof AppOrigins]: string[] } = {};
  for (const list of LISTS) {
    const declaredList = isObject(declared) ? declared[list] : undefined;
    if (!Array.isArray(declaredList)) continue;
    const origins: string[] = [];
    for (const origin of declaredList as unknown[]) {
      const text = typeof origin === "string" ? origin.replace(/\/$/, "") : "";
      if (origins.length < ORIGINS_MAX && ORIGIN.test(text) && !reaches(text, own)) origins.push(text);
      else leftOut.push(String(origin).slice(0, SHOWN_UNITS));
    }
    if (origins.length > 0) allowed[list] = origins;
  }
  return { allowed, leftOut: leftOut.slice(0, ORIGINS_MAX) };
}

const SHOWN_UNITS = 200;
const ORIGIN = /^(?:https?|wss?):\/\/(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*(?::\d{1,5})?$/i;

/** An app may use Berth only through the calls that its host makes for it. */
function reaches(origin: string, own: string): boolean {
  const [target, self] = [parseOrigin(origin), parseOrigin(own)];
  if (target.port !== self.port) return false;
  if (target.host.startsWith("*.")) return self.host.endsWith(target.host.slice(1));
  return target.host === self.host || (isThisMachine(target.host) && isThisMachine(self.host));
}

function parseOrigin(origin: string): { host: string; port: string } {
  const [, scheme = "", host = "", port] = /^(\w+):\/\/(.*?)(?::(\d+))?$/.exec(origin.toLowerCase()) ?? [];
  const isSecure = scheme === "https" || scheme === "wss";
  return { host: host.replace(/\.$/, ""), port: String(Number(port ?? (isSecure ? 443 : 80))) };
}

function isThisMachine(host: string): boolean {
  return /^(?:localhost|.*\.localhost|127\.[\d.]+|0\.0\.0\.0|0|\[.*\])$/.test(host);
}

/** The value of `Content-Security-Policy`, without `'self'`: Berth's own origin serves the page of an app. */
export function buildPolicy({ connectDomains, resourceDomains, frameDomains, baseUriDomains }: AppOrigins): string {
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
