import type { JWTPayload } from "jose";
import { hash } from "node:crypto";
import { BerthError } from "../../lib/errors.ts";

/** Reads the claims of a token whose signature is right: its issuer may write anything into them. */

/** RFC 9068, and issuers that state no type; other kinds of JWT are no access tokens. */
const TYPES: ReadonlySet<unknown> = new Set([undefined, "at+jwt", "application/at+jwt", "jwt"]);
/** Claims of other kinds whose issuers call every token just JWT: identity tokens, logouts (OpenID Connect). */
const OTHERS = ["nonce", "at_hash", "c_hash", "events"];

/** Throws `unauthorized` for a JWT that is not a bearer access token. */
export function checkKind(typ: string | undefined, claims: JWTPayload): void {
  if (!TYPES.has(typ?.toLowerCase()) || OTHERS.some((claim) => claims[claim] !== undefined)) {
    throw new BerthError("unauthorized", "it is no access token");
  }
  // It is bound to a key of its client (RFC 9449, RFC 8705), which a bearer does not prove to have.
  if (claims["cnf"] !== undefined) {
    throw new BerthError("unauthorized", "it is bound to a key and cannot be used as a bearer token");
  }
}

export function audiencesIn({ aud }: JWTPayload): ReadonlySet<unknown> {
  return new Set([aud].flat().map(canonicalAudience));
}

/** Scheme and host of a URL are case-insensitive; the rest is not. */
export function canonicalAudience(audience: unknown): unknown {
  const [, authority, rest] = (typeof audience === "string" && /^(https?:\/\/[\w.:[\]-]+)(.*)$/is.exec(audience)) || [];
  return authority !== undefined && URL.canParse(authority) ? `${new URL(authority).origin}${rest}` : audience;
}

/** `scope` is RFC 9068's; some issuers use `scp` instead. */
export function scopesIn({ scope, scp }: JWTPayload): string[] {
  const texts = [scope, scp].flat().filter((each) => typeof each === "string");
  return texts.flatMap((text) => text.split(" ").filter(Boolean));
}

const NAME_CHARACTERS_MAX = 100;

/** The same person with another client is another principal: one client's work must not be continued by the other. */
export function idOf(claims: JWTPayload): string {
  const { iss, client_id: clientId, azp } = claims;
  const sub = typeof claims.sub === "string" ? claims.sub : undefined;
  const client = typeof clientId === "string" ? clientId : typeof azp === "string" ? azp : "";
  if (sub === undefined && client === "") throw new BerthError("unauthorized", "it does not say whose it is");
  const rest = hash("sha256", JSON.stringify([iss, sub, client]), "hex").slice(0, 16);
  // It appears in logs and histories, where an issuer may write only a single word.
  return `oauth:${(sub ?? client).slice(0, NAME_CHARACTERS_MAX).replace(/[\p{C}\p{Z}]/gu, "_")}#${rest}`;
}
