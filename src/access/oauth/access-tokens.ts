import { hash } from "node:crypto";
import type { JWTPayload } from "jose";
import { BoundedMap } from "../../lib/bounded-map.ts";
import { clock } from "../../lib/clock.ts";
import { BerthError } from "../../lib/errors.ts";
import { fixed } from "../../limits/fixed.ts";
import { createPrincipal, type AccessGrant, type Principal } from "../principal.ts";
import { KNOWN_TOKENS } from "../tokens.ts";
import { Issuers, type Asking } from "./issuers.ts";
import { grantsOf } from "./scopes.ts";
import type { OauthSettings } from "./settings.ts";

/** The resource at which a token is shown: RFC 8707 binds a token to one, and it is valid at no other. */
export interface AskedResource {
  readonly tenant: string;
  /** The server that is meant; undefined for all of the tenant's. */
  readonly server: string | undefined;
  /** The names of the resource, the usual one first. */
  readonly resources: readonly [string, ...string[]];
  /** The resource that stands for all of the tenant's servers. */
  readonly whole: string;
}

/** Public keys only: with a shared secret allowed, a public key could pass for one. */
const ALGORITHMS = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "ES512",
  "EdDSA",
  "Ed25519",
];
/** Tolerance for clocks that differ. */
const SKEW_S = 5;

const bounds = fixed({
  /** How long the signature of an access token counts as verified. */
  verifiedTokenMs: 60_000,
});

/**
 * JWT access tokens (RFC 9068), checked with the keys of the tenant's issuer. A verified token is cached for a short
 * while, so that a call costs no signature check, and no longer, so that a withdrawn key soon has no effect.
 */
export class AccessTokens {
  readonly #issuers: Issuers;
  readonly #now: () => number;
  readonly #verified: BoundedMap<string, Verified>;

  /** `now` is the clock by which tokens expire. */
  constructor(asking: Asking, now: () => number = Date.now) {
    this.#now = now;
    this.#verified = new BoundedMap(KNOWN_TOKENS);
    this.#issuers = new Issuers(asking);
  }

  /** Throws or rejects with `unauthorized`, or with `issuer_unavailable`. */
  principalOf(token: string, asked: AskedResource, settings: OauthSettings): Principal | Promise<Principal> {
    const key = hash("sha256", token, "base64url");
    const verified = this.#verified.get(key);
    if (verified && this.#isStillBelieved(verified) && verified.settings === settings)
      return principalAt(asked, verified);
    return this.#verify(token, asked.tenant, settings).then((claims) => {
      const audiences: ReadonlySet<unknown> = new Set([claims.aud].flat().map(canonicalAudience));
      const fresh = {
        tenant: asked.tenant,
        claims,
        settings,
        audiences,
        isForAll: settings.audience !== undefined && audiences.has(canonicalAudience(settings.audience)),
        believedUntil: clock.now() + bounds.verifiedTokenMs,
        principals: new Map<string, Principal>(),
      };
      this.#verified.set(key, fresh);
      return principalAt(asked, fresh);
    });
  }

  /**
   * Forgets tokens of a tenant that were verified with other settings than these. Returns the ids of their principals.
   */
  forget(tenant: string, settings: OauthSettings | undefined): Set<string> {
    const now = JSON.stringify(settings);
    const ids = new Set<string>();
    for (const [key, verified] of this.#verified) {
      if (verified.tenant !== tenant || JSON.stringify(verified.settings) === now) continue;
      this.#verified.delete(key);
      for (const { id } of verified.principals.values()) ids.add(id);
    }
    return ids;
  }

  #isStillBelieved({ believedUntil, claims }: Verified): boolean {
    return believedUntil > clock.now() && untilOf(claims) > this.#now();
  }

  async #verify(token: string, tenant: string, settings: OauthSettings): Promise<JWTPayload> {
    // Most tenants have tokens of Berth's own alone.
    const { jwtVerify } = await import("jose");
    try {
      const { payload, protectedHeader } = await jwtVerify(token, this.#issuers.of(tenant, settings).key, {
        issuer: settings.issuer,
        algorithms: ALGORITHMS,
        clockTolerance: SKEW_S,
        currentDate: new Date(this.#now()),
        requiredClaims: ["exp", "aud"],
      });
      checkKind(protectedHeader.typ, payload);
      return payload;
    } catch (error) {
      throw error instanceof BerthError ? error : unauthorized(reasonOf(error), error);
    }
  }
}

interface Verified {
  readonly tenant: string;
  readonly claims: JWTPayload;
  readonly settings: OauthSettings;
  readonly audiences: ReadonlySet<unknown>;
  /** True when it has the audience that stands for all of the tenant's servers. */
  readonly isForAll: boolean;
  /** On the steady clock: a wall clock that is set back must not keep a withdrawn key in effect. */
  readonly believedUntil: number;
  /** By the audience that made it valid where it was shown. */
  readonly principals: Map<string, Principal>;
}

const WHOLE = "";

function untilOf({ exp = 0 }: JWTPayload): number {
  return (exp + SKEW_S) * 1_000;
}

function principalAt(asked: AskedResource, verified: Verified): Principal {
  const { principals, claims, settings, audiences, isForAll } = verified;
  const isWhole = isForAll || audiences.has(asked.whole);
  const resource = isWhole ? WHOLE : asked.resources.find((each) => audiences.has(each));
  if (resource === undefined) throw unauthorized("it was issued for another audience");
  const known = principals.get(resource);
  if (known) return known;
  const grants = grantsOf(scopesIn(claims), settings);
  const { server } = asked;
  const own = isWhole || server === undefined ? grants : grants.flatMap((grant) => limited(grant, server));
  const principal = createPrincipal({ id: idOf(claims), tenant: asked.tenant, until: untilOf(claims) }, own);
  principals.set(resource, principal);
  return principal;
}

/** A token that was made for one server is valid for no other. */
function limited(grant: AccessGrant, server: string): AccessGrant[] {
  return grant.servers && !grant.servers.includes(server) ? [] : [{ ...grant, servers: [server] }];
}

/** The reason, with nothing of the token itself. */
function reasonOf(error: unknown): string {
  const { code, claim } = error as { readonly code?: string; readonly claim?: string };
  switch (code) {
    case "ERR_JWT_EXPIRED":
      return "it has expired";
    case "ERR_JWT_CLAIM_VALIDATION_FAILED":
      return `its claim "${claim}" is wrong`;
    case "ERR_JOSE_ALG_NOT_ALLOWED":
      return "its signing algorithm is not allowed";
    case "ERR_JWKS_NO_MATCHING_KEY":
      return "its issuer has no such key";
    case "ERR_JWS_SIGNATURE_VERIFICATION_FAILED":
      return "its signature is wrong";
    default:
      return "the issuer did not issue it";
  }
}

function unauthorized(detail: string, cause?: unknown): BerthError {
  return new BerthError("unauthorized", detail, { cause });
}

/** Reads the claims of a token whose signature is right: its issuer may write anything into them. */

/** RFC 9068, and issuers that state no type; other kinds of JWT are no access tokens. */
const TYPES: ReadonlySet<unknown> = new Set([undefined, "at+jwt", "application/at+jwt", "jwt"]);
/** Claims of other kinds whose issuers call every token just JWT: identity tokens, logouts (OpenID Connect). */
const OTHERS = ["nonce", "at_hash", "c_hash", "events"];

/** Throws `unauthorized` for a JWT that is not a bearer access token. */
function checkKind(typ: string | undefined, claims: JWTPayload): void {
  if (!TYPES.has(typ?.toLowerCase()) || OTHERS.some((claim) => claims[claim] !== undefined)) {
    throw new BerthError("unauthorized", "it is not an access token");
  }
  // It is bound to a key of its client (RFC 9449, RFC 8705), which a bearer does not prove to have.
  if (claims["cnf"] !== undefined) {
    throw new BerthError("unauthorized", "it is bound to a key and cannot be used as a bearer token");
  }
}

/** Scheme and host of a URL are case-insensitive; the rest is not. */
function canonicalAudience(audience: unknown): unknown {
  const [, authority, rest] = (typeof audience === "string" && /^(https?:\/\/[\w.:[\]-]+)(.*)$/is.exec(audience)) || [];
  return authority !== undefined && URL.canParse(authority) ? `${new URL(authority).origin}${rest}` : audience;
}

/** `scope` is RFC 9068's; some issuers use `scp` instead. */
function scopesIn({ scope, scp }: JWTPayload): string[] {
  const texts = [scope, scp].flat().filter((each) => typeof each === "string");
  return texts.flatMap((text) => text.split(" ").filter(Boolean));
}

const NAME_CHARACTERS_MAX = 100;

/** The same person with another client is another principal: one client's work must not be continued by the other. */
function idOf(claims: JWTPayload): string {
  const { iss, client_id: clientId, azp } = claims;
  const sub = typeof claims.sub === "string" ? claims.sub : undefined;
  const client = typeof clientId === "string" ? clientId : typeof azp === "string" ? azp : "";
  if (sub === undefined && client === "") throw new BerthError("unauthorized", "it does not name its owner");
  const rest = hash("sha256", JSON.stringify([iss, sub, client]), "hex").slice(0, 16);
  // It appears in logs and histories, where an issuer may write only a single word.
  return `oauth:${(sub ?? client).slice(0, NAME_CHARACTERS_MAX).replace(/[\p{C}\p{Z}]/gu, "_")}#${rest}`;
}
