import { hash } from "node:crypto";
import type { JWTPayload } from "jose";
import { BoundedMap } from "../../lib/bounded-map.ts";
import { clock } from "../../lib/clock.ts";
import { BerthError } from "../../lib/errors.ts";
import { fixed } from "../../limits/fixed.ts";
import { createPrincipal, type AccessGrant, type Principal } from "../principal.ts";
import { KNOWN_TOKENS } from "../tokens.ts";
import { Issuers, type IssuersOptions } from "./issuers.ts";
import { grantsOf } from "./scopes.ts";
import type { OauthSettings } from "./settings.ts";

/** The resource that a token is used at: RFC 8707 binds a token to one, and it is valid at no other. */
export interface RequestedResource {
  readonly tenant: string;
  /** The requested server; undefined for all servers of the tenant. */
  readonly server: string | undefined;
  /** The names of the resource, the usual one first. */
  readonly resources: readonly [string, ...string[]];
  /** The resource that represents all servers of the tenant. */
  readonly whole: string;
}

/** Public keys only: if shared secrets were allowed, a public key could be used as one. */
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
/** Tolerance for clock skew. */
const SKEW_S = 5;

const bounds = fixed({
  /** How long a verified signature is cached. */
  verifiedTokenMs: 60_000,
});

/**
 * JWT access tokens (RFC 9068), verified with the keys of the tenant's issuer. A verified token is cached for a short
 * time, so that calls need no signature check but a withdrawn key soon has no effect.
 */
export class AccessTokens {
  readonly #issuers: Issuers;
  readonly #now: () => number;
  readonly #verified: BoundedMap<string, Verified>;

  /** `now` is the clock by which tokens expire. */
  constructor(asking: IssuersOptions, now: () => number = Date.now) {
    this.#now = now;
    this.#verified = new BoundedMap(KNOWN_TOKENS);
    this.#issuers = new Issuers(asking);
  }

  /** Throws or rejects with `unauthorized`, or with `issuer_unavailable`. */
  principalOf(token: string, requested: RequestedResource, settings: OauthSettings): Principal | Promise<Principal> {
    const key = hash("sha256", token, "base64url");
    const verified = this.#verified.get(key);
    if (verified && this.#isFresh(verified) && verified.settings === settings) return principalAt(requested, verified);
    return this.#verify(token, requested.tenant, settings).then((claims) => {
      const audiences: ReadonlySet<unknown> = new Set([claims.aud].flat().map(canonicalAudience));
      const fresh = {
        tenant: requested.tenant,
        claims,
        settings,
        audiences,
        isForAll: settings.audience !== undefined && audiences.has(canonicalAudience(settings.audience)),
        verifiedUntil: clock.now() + bounds.verifiedTokenMs,
        principals: new Map<string, Principal>(),
      };
      this.#verified.set(key, fresh);
      return principalAt(requested, fresh);
    });
  }

  /** Removes cached tokens of a tenant that were verified with other settings. Returns the ids of their principals. */
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

  #isFresh({ verifiedUntil, claims }: Verified): boolean {
    return verifiedUntil > clock.now() && expiryMs(claims) > this.#now();
  }

  async #verify(token: string, tenant: string, settings: OauthSettings): Promise<JWTPayload> {
    // Most tenants only use Berth's own tokens.
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
      throw error instanceof BerthError ? error : unauthorized(describeFailure(error), error);
    }
  }
}

interface Verified {
  readonly tenant: string;
  readonly claims: JWTPayload;
  readonly settings: OauthSettings;
  readonly audiences: ReadonlySet<unknown>;
  /** True if it has the audience that represents all servers of the tenant. */
  readonly isForAll: boolean;
  /** On the monotonic clock: a wall clock that is set back must not keep a withdrawn key valid. */
  readonly verifiedUntil: number;
  /** By the audience that made the token valid. */
  readonly principals: Map<string, Principal>;
}

const WHOLE = "";

function expiryMs({ exp = 0 }: JWTPayload): number {
  return (exp + SKEW_S) * 1_000;
}

function principalAt(requested: RequestedResource, verified: Verified): Principal {
  const { principals, claims, settings, audiences, isForAll } = verified;
  const isWhole = isForAll || audiences.has(requested.whole);
  const resource = isWhole ? WHOLE : requested.resources.find((each) => audiences.has(each));
  if (resource === undefined) throw unauthorized("it was issued for another audience");
  const existing = principals.get(resource);
  if (existing) return existing;
  const grants = grantsOf(readScopes(claims), settings);
  const { server } = requested;
  const permitted = isWhole || server === undefined ? grants : grants.flatMap((grant) => limitToServer(grant, server));
  const principal = createPrincipal(
    { id: principalId(claims), tenant: requested.tenant, until: expiryMs(claims) },
    permitted,
  );
  principals.set(resource, principal);
  return principal;
}

/** A token that was issued for one server is valid for no other. */
function limitToServer(grant: AccessGrant, server: string): AccessGrant[] {
  return grant.servers && !grant.servers.includes(server) ? [] : [{ ...grant, servers: [server] }];
}

/** The reason, without any part of the token. */
function describeFailure(error: unknown): string {
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

/** These functions read the claims of a verified token, into which its issuer may write anything. */

/** RFC 9068, and issuers that state no type; other kinds of JWT are not access tokens. */
const TYPES: ReadonlySet<unknown> = new Set([undefined, "at+jwt", "application/at+jwt", "jwt"]);
/** Claims of other tokens, for issuers that type every token as JWT: identity tokens, logouts (OpenID Connect). */
const FOREIGN_CLAIMS = ["nonce", "at_hash", "c_hash", "events"];

/** Throws `unauthorized` for a JWT that is not a bearer access token. */
function checkKind(typ: string | undefined, claims: JWTPayload): void {
  if (!TYPES.has(typ?.toLowerCase()) || FOREIGN_CLAIMS.some((claim) => claims[claim] !== undefined)) {
    throw new BerthError("unauthorized", "it is not an access token");
  }
  // Bound to a key of its client (RFC 9449, RFC 8705), which a bearer does not prove to have.
  if (claims["cnf"] !== undefined) {
    throw new BerthError("unauthorized", "it is bound to a key and cannot be used as a bearer token");
  }
}

/** Scheme and host of a URL are case-insensitive; the rest is not. */
function canonicalAudience(audience: unknown): unknown {
  const [, authority, rest] = (typeof audience === "string" && /^(https?:\/\/[\w.:[\]-]+)(.*)$/is.exec(audience)) || [];
  return authority !== undefined && URL.canParse(authority) ? `${new URL(authority).origin}${rest}` : audience;
}

/** `scope` is defined by RFC 9068; some issuers use `scp` instead. */
function readScopes({ scope, scp }: JWTPayload): string[] {
  const texts = [scope, scp].flat().filter((each) => typeof each === "string");
  return texts.flatMap((text) => text.split(" ").filter(Boolean));
}

const NAME_CHARACTERS_MAX = 100;

/** The same person with another client is another principal: no client may continue another client's work. */
function principalId(claims: JWTPayload): string {
  const { iss, client_id: clientId, azp } = claims;
  const sub = typeof claims.sub === "string" ? claims.sub : undefined;
  const client = typeof clientId === "string" ? clientId : typeof azp === "string" ? azp : "";
  if (sub === undefined && client === "") throw new BerthError("unauthorized", "it does not name its owner");
  const rest = hash("sha256", JSON.stringify([iss, sub, client]), "hex").slice(0, 16);
  // It appears in logs and histories, where only a single word may come from the issuer.
  return `oauth:${(sub ?? client).slice(0, NAME_CHARACTERS_MAX).replace(/[\p{C}\p{Z}]/gu, "_")}#${rest}`;
}
