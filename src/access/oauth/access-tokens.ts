import { errors as joseErrors, jwtVerify, type JWTPayload } from "jose";
import { hash } from "node:crypto";
import type { Limits } from "../../limits.ts";
import { BerthError } from "../../errors.ts";
import { createPrincipal, type Grant, type Principal } from "../principal.ts";
import { Issuers, type IssuersLimits } from "./issuers.ts";
import { grantsOf } from "./scopes.ts";
import type { OauthSettings } from "./settings.ts";

/** Where a token is shown: RFC 8707 has it made for a resource, and it is good at no other. */
export interface AskedResource {
  readonly tenant: string;
  /** The server that is meant; undefined where all of the tenant's are. */
  readonly server: string | undefined;
  /** The names of what is asked, the usual one first. */
  readonly resources: readonly [string, ...string[]];
  /** The resource that stands for all of the tenant's servers. */
  readonly whole: string;
}

/** Of public keys alone: with a secret shared by both sides, a public key could pass for one. */
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
/** RFC 9068 and those who do not say; other kinds of JWT are no access tokens. */
const TYPES: ReadonlySet<unknown> = new Set([undefined, "at+jwt", "application/at+jwt", "jwt"]);
/** Clocks differ. */
const SKEW_S = 5;

/**
 * JWT access tokens (RFC 9068), checked by the keys of the tenant's issuer. What was verified is believed for a short
 * while, so that a call costs no signature, and no longer, so that a key that is withdrawn is soon without effect.
 */
export class AccessTokens {
  readonly #limits: AccessTokenLimits;
  readonly #issuers: Issuers;
  readonly #verified = new Map<string, Verified>();

  /** `checkedFetch` reaches what an issuer that is not the operator's own may be asked at. */
  constructor(limits: AccessTokenLimits, checkedFetch: typeof fetch) {
    this.#limits = limits;
    this.#issuers = new Issuers(limits, checkedFetch);
  }

  /** Throws or rejects with `unauthorized`, or with `issuer_unavailable`. */
  principalOf(token: string, asked: AskedResource, settings: OauthSettings): Principal | Promise<Principal> {
    const key = hash("sha256", token, "base64url");
    const verified = this.#verified.get(key);
    if (verified && verified.until > Date.now() && verified.settings === settings) return principalAt(asked, verified);
    return this.#verify(token, asked.tenant, settings).then((claims) => {
      const fresh = { claims, settings, until: this.#until(claims), principals: new Map<string, Principal>() };
      this.#remember(key, fresh);
      return principalAt(asked, fresh);
    });
  }

  async #verify(token: string, tenant: string, settings: OauthSettings): Promise<JWTPayload> {
    try {
      const { payload, protectedHeader } = await jwtVerify(token, this.#issuers.of(tenant, settings).key, {
        issuer: settings.issuer,
        algorithms: ALGORITHMS,
        clockTolerance: SKEW_S,
        requiredClaims: ["exp", "aud"],
      });
      if (!TYPES.has(protectedHeader.typ?.toLowerCase())) throw unauthorized("it is no access token");
      // It is bound to a key of its client (RFC 9449, RFC 8705), which a bearer does not prove to have.
      if (payload["cnf"] !== undefined) throw unauthorized("it is bound to a key and cannot be used as a bearer token");
      return payload;
    } catch (error) {
      throw error instanceof BerthError ? error : unauthorized(reasonOf(error), error);
    }
  }

  #until({ exp = 0 }: JWTPayload): number {
    return Math.min((exp + SKEW_S) * 1_000, Date.now() + this.#limits.verifiedTokenMs);
  }

  #remember(key: string, verified: Verified): void {
    const [oldest] = this.#verified.keys();
    if (this.#verified.size >= this.#limits.knownTokens && oldest !== undefined) this.#verified.delete(oldest);
    this.#verified.set(key, verified);
  }
}

export type AccessTokenLimits = IssuersLimits & Pick<Limits, "knownTokens" | "verifiedTokenMs">;

interface Verified {
  readonly claims: JWTPayload;
  readonly settings: OauthSettings;
  readonly until: number;
  /** By the audience that made it good where it was shown. */
  readonly principals: Map<string, Principal>;
}

const WHOLE = "";

function principalAt(asked: AskedResource, verified: Verified): Principal {
  const { principals, claims, settings } = verified;
  const audiences = new Set<unknown>([claims.aud].flat());
  const isMeant = (resource: string | undefined): boolean => resource !== undefined && audiences.has(resource);
  const isWhole = isMeant(asked.whole) || isMeant(settings.audience);
  const resource = isWhole ? WHOLE : asked.resources.find(isMeant);
  if (resource === undefined) throw unauthorized("it was made for another audience");
  const known = principals.get(resource);
  if (known) return known;
  const grants = grantsOf(scopesIn(claims), settings);
  const { server } = asked;
  const own = isWhole || server === undefined ? grants : grants.flatMap((grant) => limited(grant, server));
  const principal = createPrincipal(
    { id: idOf(claims), tenant: asked.tenant, until: ((claims.exp ?? 0) + SKEW_S) * 1_000 },
    own,
  );
  principals.set(resource, principal);
  return principal;
}

/** A token that was made for one server is good for nothing of another. */
function limited(grant: Grant, server: string): Grant[] {
  return grant.servers && !grant.servers.includes(server) ? [] : [{ ...grant, servers: [server] }];
}

/** `scope` is RFC 9068's, `scp` what some issuers have instead. */
function scopesIn({ scope, scp }: JWTPayload): string[] {
  const texts = [scope, scp].flat().filter((each) => typeof each === "string");
  return texts.flatMap((text) => text.split(" ").filter(Boolean));
}

const NAME_CHARACTERS_MAX = 100;

/** The same person by another client is another one: what one client has begun is not the other's to go on with. */
function idOf(claims: JWTPayload): string {
  const { iss, sub, client_id: clientId, azp } = claims;
  const client = typeof clientId === "string" ? clientId : typeof azp === "string" ? azp : "";
  if (sub === undefined && client === "") throw unauthorized("it does not say whose it is");
  const rest = hash("sha256", JSON.stringify([iss, sub, client]), "hex").slice(0, 16);
  return `oauth:${(sub ?? client).slice(0, NAME_CHARACTERS_MAX)}#${rest}`;
}

/** Nothing of the token itself. */
function reasonOf(error: unknown): string {
  if (error instanceof joseErrors.JWTExpired) return "it has expired";
  if (error instanceof joseErrors.JWTClaimValidationFailed) return `its claim "${error.claim}" is not right`;
  if (error instanceof joseErrors.JOSEAlgNotAllowed) return "it is signed in a way that is not allowed";
  if (error instanceof joseErrors.JWKSNoMatchingKey) return "its issuer has no such key";
  if (error instanceof joseErrors.JWSSignatureVerificationFailed) return "its signature is not right";
  return "it is none that the issuer made";
}

function unauthorized(detail: string, cause?: unknown): BerthError {
  return new BerthError("unauthorized", detail, { cause });
}
