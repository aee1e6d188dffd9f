import type { IncomingMessage } from "node:http";
import { BerthError } from "../../lib/errors.ts";
import { DEFAULT_TENANT } from "../../lib/tenant-name.ts";
import { isOwnPage } from "./own-page.ts";

/**
 * The token of a request, or the sign-in of a browser; never taken from the address, which ends up in logs and
 * histories. A browser adds its cookies by itself, so a request with one may not be intended.
 */
export type Credential = { readonly token: string } | { readonly signIn: string };

const BEARER = /^Bearer +([\x21-\x7e]+) *$/i;

/**
 * The credential of a request to a tenant. The header takes precedence over the cookie, which counts only for pages of
 * this service. Throws `unauthorized` for a header without a bearer token, unless other schemes are `ignored`.
 */
export function credentialOf(
  request: IncomingMessage,
  tenant: string,
  otherSchemes: "ignored" | "refused",
): Credential | undefined {
  const { authorization, cookie } = request.headers;
  if (authorization !== undefined) {
    const token = BEARER.exec(authorization)?.[1];
    if (token !== undefined) return { token };
    if (otherSchemes === "ignored" && !/^Bearer\b/i.test(authorization)) return undefined;
    throw new BerthError("unauthorized", "send Authorization: Bearer <token>");
  }
  if (cookie === undefined || !isOwnPage(request)) return undefined;
  const text = signInCookieOf(request, tenant);
  return text === undefined ? undefined : { signIn: text };
}

/** The sign-in that a browser's cookie holds for a tenant. */
export function signInCookieOf({ headers: { cookie } }: IncomingMessage, tenant: string): string | undefined {
  return cookie === undefined ? undefined : readCookie(cookie, cookieName(tenant));
}

/** Each tenant has its own: browsers also send one tenant's cookie to pages of another, where it must mean nothing. */
function cookieName(tenant: string): string {
  return tenant === DEFAULT_TENANT ? "berth_sign_in" : `berth_sign_in_${tenant}`;
}

function readCookie(header: string, name: string): string | undefined {
  for (const pair of header.split(";")) {
    const at = pair.indexOf("=");
    if (at < 0 || pair.slice(0, at).trim() !== name) continue;
    try {
      const token = decodeURIComponent(pair.slice(at + 1).trim());
      return token === "" ? undefined : token;
    } catch {
      return undefined;
    }
  }
  return undefined;
}

/** Browsers drop longer cookies. */
const COOKIE_CHARACTERS_MAX = 3_800;

/**
 * The cookie that holds a sign-in for a tenant's pages, out of reach of scripts; without a sign-in, the one that
 * expires it. Undefined when it is too long.
 */
export function signInCookie(
  { tenant, base }: { readonly tenant: string; readonly base: string },
  { text, lastsMs, secure }: { readonly text?: string; readonly lastsMs?: number; readonly secure: boolean },
): string | undefined {
  const value = text ?? "";
  if (value.length > COOKIE_CHARACTERS_MAX) return undefined;
  const maxAge = text === undefined ? 0 : lastsMs === undefined ? undefined : Math.max(1, Math.floor(lastsMs / 1_000));
  return [
    `${cookieName(tenant)}=${value}`,
    `Path=${base}/`,
    "HttpOnly",
    "SameSite=Strict",
    ...(secure ? ["Secure"] : []),
    ...(maxAge === undefined ? [] : [`Max-Age=${Math.min(MAX_AGE_S_MAX, Math.max(0, maxAge))}`]),
  ].join("; ");
}

/** Browsers cap the age at 400 days, and ignore a value that is not a number. */
const MAX_AGE_S_MAX = 400 * 86_400;
