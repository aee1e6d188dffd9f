import type { IncomingMessage } from "node:http";
import { BerthError } from "../../lib/errors.ts";
import { DEFAULT_TENANT } from "../../lib/tenant-name.ts";
import { isOwnPage } from "./own-page.ts";

/**
 * A token as a request brings it, or the sign-in of a browser: never in its address, which stands in logs and histories.
 * A browser adds its cookies by itself, so that who sends one may not have meant to.
 */
export type Credential = { readonly token: string } | { readonly signIn: string };

const BEARER = /^Bearer +([\x21-\x7e]+) *$/i;

/**
 * The token of a request for a tenant. The header goes before the cookie, which counts only for pages of this very
 * service. Throws `unauthorized` for a header that holds none, unless `otherSchemes` are somebody else's business.
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

/** Of each tenant another one: what one tenant's pages keep is sent to those of another, and means nothing there. */
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

/** Beyond this browsers keep no cookie. */
const COOKIE_CHARACTERS_MAX = 3_800;

/** Ends the cookie of an earlier version, which held the token itself. */
export function endTokenCookie({ tenant, base }: { readonly tenant: string; readonly base: string }): string {
  const name = tenant === DEFAULT_TENANT ? "berth_token" : `berth_token_${tenant}`;
  return `${name}=; Path=${base}/; HttpOnly; SameSite=Strict; Max-Age=0`;
}

/**
 * The cookie that keeps a sign-in for the pages of a tenant, out of reach of scripts; without a sign-in, the one that
 * ends it. Undefined for one that is too long.
 */
export function signInCookie(
  { tenant, base }: { readonly tenant: string; readonly base: string },
  { text, until, secure }: { readonly text?: string; readonly until?: number; readonly secure: boolean },
): string | undefined {
  const value = text ?? "";
  if (value.length > COOKIE_CHARACTERS_MAX) return undefined;
  const maxAge = text === undefined ? 0 : until === undefined ? undefined : Math.ceil((until - Date.now()) / 1_000);
  return [
    `${cookieName(tenant)}=${value}`,
    `Path=${base}/`,
    "HttpOnly",
    "SameSite=Strict",
    ...(secure ? ["Secure"] : []),
    ...(maxAge === undefined ? [] : [`Max-Age=${Math.min(MAX_AGE_S_MAX, Math.max(0, maxAge))}`]),
  ].join("; ");
}

/** Browsers keep none for longer than 400 days, and ignore what is no number. */
const MAX_AGE_S_MAX = 400 * 86_400;
