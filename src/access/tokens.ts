import { randomBytes, timingSafeEqual } from "node:crypto";
import { BoundedMap } from "../lib/bounded-map.ts";
import { BerthError } from "../lib/errors.ts";
import type { JsonObject } from "../lib/json.ts";
import { LastKnown } from "../lib/last-known.ts";
import { fixed } from "../limits/fixed.ts";
import type { Limits } from "../limits/limits.ts";
import type { TokenPart, TokenRecord, TokenRecords } from "../store/store.ts";
import { createPrincipal, type AccessGrant, type Principal } from "./principal.ts";
import type { TokenRequest } from "./token-request.ts";
import { isTokenText, newToken, tokenHash } from "./token-text.ts";

/** How long the store is not queried again for a rejected token: no one has a token before it is stored. */
const REJECTED_MS = 1_000;
/** Tokens that are cached, which saves a store lookup or a signature check. */
export const KNOWN_TOKENS = 10_000;

const bounds = fixed({
  /**
   * How long a token of Berth's own is cached before it is looked up again. A revocation takes effect immediately, also
   * by another process; this is a fallback if the notification is lost.
   */
  knownTokenMs: 60_000,
  /** Berth's own tokens per tenant, including expired and revoked ones, which are deleted when space is needed. */
  tokensPerTenant: 10_000,
});

/**
 * Berth's own tokens: created, listed, revoked and verified. It owns what a token is valid for and how long; the store
 * owns storage. A token is shown only once, to its creator.
 */
export class Tokens {
  readonly #records: TokenRecords;
  /** By hash: a call costs one hash and one lookup here. */
  readonly #cache: LastKnown<CachedToken>;
  /** When the store reported that a hash is unknown or was revoked. */
  readonly #rejected: BoundedMap<string, { readonly at: number; readonly why: string }>;
  readonly #options: TokensOptions;
  readonly #stop: () => void;

  constructor(records: TokenRecords, options: TokensOptions) {
    this.#records = records;
    this.#cache = new LastKnown(KNOWN_TOKENS, bounds.knownTokenMs + options.databaseOutageMs);
    this.#rejected = new BoundedMap(KNOWN_TOKENS);
    this.#options = options;
    this.#stop = records.onRevoke((id) => this.#forget(id));
  }

  /** Milliseconds since the epoch, by the clock by which tokens expire. */
  now(): number {
    return this.#options.now?.() ?? Date.now();
  }

  /** Rejects with `tenant_not_found`, or with `token_invalid` if there are too many or they are created too often. */
  async create(tenant: string, request: TokenRequest, by: string): Promise<CreatedToken> {
    this.#options.checkPace?.(tenant);
    const { name, grant, expiresAt } = request;
    const token = newToken();
    // Short, because people type ids to revoke.
    const id = randomBytes(5).toString("hex");
    const json = { ...grant } as unknown as JsonObject;
    const stored = { id, tenant, hash: tokenHash(token), name, grant: json, expiresAt };
    const record = await this.#records.add(stored, by, bounds.tokensPerTenant);
    return { token, ...toInfo(record) };
  }

  /** Newest first, including revoked ones: all of them, or a page after the one with a given id. */
  async list(tenant: string, part?: TokenPart): Promise<TokenInfo[]> {
    return (await this.#records.list(tenant, part)).map(toInfo);
  }

  /** Rejects with `token_not_found` if there is nothing to revoke. */
  async revoke(tenant: string, id: string, by: string): Promise<void> {
    const revoked = await this.#records.revoke(tenant, id, by);
    if (!revoked) throw new BerthError("token_not_found", `"${id}"`);
    this.#forget(id);
  }

  /** The principal of a token; synchronous if it is cached. Throws or rejects with `unauthorized`. */
  principalOf(token: string, tenant: string): Principal | Promise<Principal> {
    if (!isTokenText(token)) throw new BerthError("unauthorized", "it is mistyped or incomplete");
    const hash = tokenHash(token);
    const cached = this.#cache.newerThan(bounds.knownTokenMs, hash);
    if (cached) return this.#checkValid(cached.value.principal, tenant);
    const rejected = this.#rejected.get(hash);
    if (rejected && performance.now() - rejected.at < REJECTED_MS) throw new BerthError("unauthorized", rejected.why);
    return this.#cache
      .read(hash, () => this.#lookUp(hash))
      .then(({ principal }) => this.#checkValid(principal, tenant));
  }

  /** The tenant may have been deleted, with all its tokens. */
  forgetTenant(tenant: string): void {
    this.#cache.forget(({ principal }) => principal.tenant === tenant);
  }

  close(): void {
    this.#stop();
  }

  async #lookUp(hash: string): Promise<CachedToken> {
    const record = await this.#records.byHash(hash);
    const cached = this.#cache.newerThan(Infinity, hash)?.value;
    if (cached && record?.revokedAt !== null) this.#forget(cached.id);
    if (!record || !isSame(record.hash, hash)) throw this.#reject(hash, UNKNOWN);
    if (record.revokedAt !== null) throw this.#reject(hash, "it was revoked");
    // Simultaneous requests share one principal.
    return { id: record.id, principal: cached?.principal ?? principalOf(record) };
  }

  #checkValid(principal: Principal, tenant: string): Principal {
    if (principal.until !== undefined && principal.until <= this.now())
      throw new BerthError("unauthorized", "it has expired");
    // A token of another tenant looks like one that does not exist.
    if (principal.tenant !== tenant) throw new BerthError("unauthorized", UNKNOWN);
    return principal;
  }

  #reject(hash: string, why: string): BerthError {
    this.#rejected.set(hash, { at: performance.now(), why });
    return new BerthError("unauthorized", why);
  }

  #forget(id: string): void {
    this.#cache.forget((token) => token.id === id);
    this.#options.onRevoked(principalId(id));
  }
}

interface TokensOptions extends Pick<Limits, "databaseOutageMs"> {
  /** Throws if a tenant creates them too often. */
  readonly checkPace?: ((tenant: string) => void) | undefined;
  /** The clock by which tokens expire; by default that of the process. */
  readonly now?: (() => number) | undefined;
  /** Called for each token that has become invalid. */
  readonly onRevoked: (principalId: string) => void;
}

export interface TokenInfo extends AccessGrant {
  readonly id: string;
  readonly name: string;
  readonly tenant: string;
  /** All times in milliseconds since the epoch. */
  readonly createdAt: number;
  readonly expiresAt: number | null;
  readonly revokedAt: number | null;
}

export interface CreatedToken extends TokenInfo {
  /** A secret. */
  readonly token: string;
}

interface CachedToken {
  readonly id: string;
  readonly principal: Principal;
}

function principalId(id: string): string {
  return `token:${id}`;
}

function principalOf({ id, tenant, grant, expiresAt }: TokenRecord): Principal {
  const identity = { id: principalId(id), tenant, ...(expiresAt !== null && { until: expiresAt }) };
  return createPrincipal(identity, [grant as unknown as AccessGrant]);
}

function toInfo({ id, name, tenant, grant, createdAt, expiresAt, revokedAt }: TokenRecord): TokenInfo {
  return { id, name, tenant, ...(grant as unknown as AccessGrant), createdAt, expiresAt, revokedAt };
}

const UNKNOWN = "there is no such token here";

/** Compares in constant time. */
function isSame(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}
