import { randomBytes, timingSafeEqual } from "node:crypto";
import { BoundedMap } from "../lib/bounded-map.ts";
import { BerthError } from "../lib/errors.ts";
import type { JsonObject } from "../lib/json.ts";
import type { Limits } from "../limits/limits.ts";
import type { TokenPart, TokenRecord, TokenRecords } from "../store/store.ts";
import { createPrincipal, type AccessGrant, type Principal } from "./principal.ts";
import type { TokenRequest } from "./token-request.ts";
import { isTokenText, newToken, tokenHash } from "./token-text.ts";

/** How long the store is not asked again for a token that it refused: nobody has one before it is kept. */
const REFUSED_MS = 1_000;

/**
 * Berth's own tokens: created, listed, revoked and verified. It owns what a token is valid for and how long; storage is
 * the store's business. A token is shown once, to its creator, and never again.
 */
export class Tokens {
  readonly #records: TokenRecords;
  /** By hash: a call costs one hash and one look-up here. */
  readonly #known: BoundedMap<string, Known>;
  /** When the store said of a hash that it knows none, or that it was revoked. */
  readonly #refused: BoundedMap<string, { readonly at: number; readonly why: string }>;
  readonly #knownMs: number;
  readonly #staleMs: number;
  readonly #tokensMax: number;
  readonly #checkPace: (tenant: string) => void;
  readonly #now: () => number;
  readonly #onRevoked: (principalId: string) => void;
  readonly #stop: () => void;
  /** Counts revocations, those of whole tenants included. */
  #changes = 0;

  constructor(records: TokenRecords, options: TokensOptions) {
    this.#records = records;
    this.#known = new BoundedMap(options.knownTokens);
    this.#refused = new BoundedMap(options.knownTokens);
    this.#knownMs = options.knownTokenMs;
    this.#staleMs = options.staleMs;
    this.#tokensMax = options.tokensPerTenant;
    this.#checkPace = options.checkPace ?? (() => {});
    this.#now = options.now ?? Date.now;
    this.#onRevoked = options.onRevoked;
    this.#stop = records.onRevoke((id) => this.#forget(id));
  }

  /** Milliseconds since the epoch, by the clock by which tokens expire. */
  now(): number {
    return this.#now();
  }

  /** Rejects with `tenant_not_found`, and with `token_invalid` if there are too many or they are made too often. */
  async create(tenant: string, wish: TokenRequest, by: string): Promise<CreatedToken> {
    this.#checkPace(tenant);
    const { name, grant, expiresAt } = wish;
    const token = newToken();
    const id = newId();
    const plain = { ...grant } as unknown as JsonObject;
    const made = { id, tenant, hash: tokenHash(token), name, grant: plain, expiresAt };
    const record = await this.#records.add(made, by, this.#tokensMax);
    return { token, ...infoOf(record) };
  }

  /** Newest first, revoked ones included: all of them, or a number of them after the one with a given id. */
  async list(tenant: string, part?: TokenPart): Promise<TokenInfo[]> {
    return (await this.#records.list(tenant, part)).map(infoOf);
  }

  /** Rejects with `token_not_found` if there is nothing to revoke. */
  async revoke(tenant: string, id: string, by: string): Promise<void> {
    const revoked = await this.#records.revoke(tenant, id, by);
    if (!revoked) throw new BerthError("token_not_found", `"${id}"`);
    this.#forget(id);
  }

  /** The principal of a token; synchronous if it is known. Throws or rejects with `unauthorized`. */
  principalOf(token: string, tenant: string): Principal | Promise<Principal> {
    if (!isTokenText(token)) throw new BerthError("unauthorized", "it is mistyped or incomplete");
    const hash = tokenHash(token);
    const known = this.#known.get(hash);
    const isFresh = known !== undefined && performance.now() - known.foundAt < this.#knownMs;
    if (isFresh) return this.#inForce(known.principal, tenant);
    const refused = this.#refused.get(hash);
    if (refused && performance.now() - refused.at < REFUSED_MS) throw new BerthError("unauthorized", refused.why);
    return this.#look(hash, tenant);
  }

  /** The tenant may be gone, and all of its tokens with it. */
  forgetTenant(tenant: string): void {
    this.#changes += 1;
    for (const [hash, { principal }] of this.#known) if (principal.tenant === tenant) this.#known.delete(hash);
  }

  close(): void {
    this.#stop();
  }

  async #look(hash: string, tenant: string): Promise<Principal> {
    const changes = this.#changes;
    let record: TokenRecord | undefined;
    try {
      record = await this.#records.byHash(hash);
    } catch (error) {
      return this.#inForce(this.#stillKnown(hash, error), tenant);
    }
    const before = this.#known.get(hash);
    if (before && record?.revokedAt !== null) this.#forget(before.id);
    if (!record || !isSame(record.hash, hash)) throw this.#refuse(hash, UNKNOWN);
    if (record.revokedAt !== null) throw this.#refuse(hash, "it was revoked");
    // Simultaneous requests share one principal.
    const principal = this.#inForce(before?.principal ?? principalOf(record), tenant);
    // A token revoked meanwhile must not be remembered as valid.
    if (this.#changes === changes) this.#known.set(hash, { id: record.id, principal, foundAt: performance.now() });
    return principal;
  }

  /** A principal that was known counts while the store is out of reach, as long as a node may serve without it. */
  #stillKnown(hash: string, error: unknown): Principal {
    const known = this.#known.get(hash);
    const isOutage = error instanceof BerthError && error.code === "store_failed";
    if (isOutage && known && performance.now() - known.foundAt < this.#knownMs + this.#staleMs) return known.principal;
    throw error;
  }

  #inForce(principal: Principal, tenant: string): Principal {
    if (principal.until !== undefined && principal.until <= this.#now())
      throw new BerthError("unauthorized", "it has expired");
    // A token of another tenant looks like one that does not exist.
    if (principal.tenant !== tenant) throw unknown();
    return principal;
  }

  #refuse(hash: string, why: string): BerthError {
    this.#refused.set(hash, { at: performance.now(), why });
    return new BerthError("unauthorized", why);
  }

  #forget(id: string): void {
    this.#changes += 1;
    for (const [hash, known] of this.#known) if (known.id === id) this.#known.delete(hash);
    this.#onRevoked(principalId(id));
  }
}

export type TokenLimits = Pick<Limits, "knownTokens" | "knownTokenMs" | "staleMs" | "tokensPerTenant">;

export interface TokensOptions extends TokenLimits {
  /** Throws if a tenant makes them too often. */
  readonly checkPace?: ((tenant: string) => void) | undefined;
  /** The clock by which tokens expire; that of the process unless it is given. */
  readonly now?: (() => number) | undefined;
  /** Called for each token that has become invalid. */
  readonly onRevoked: (principalId: string) => void;
}

export interface TokenInfo extends AccessGrant {
  readonly id: string;
  readonly name: string;
  readonly tenant: string;
  /** Milliseconds since the epoch, all of them. */
  readonly createdAt: number;
  readonly expiresAt: number | null;
  readonly revokedAt: number | null;
}

export interface CreatedToken extends TokenInfo {
  /** A secret. */
  readonly token: string;
}

interface Known {
  readonly id: string;
  readonly principal: Principal;
  /** On the process's clock. */
  readonly foundAt: number;
}

/** Short, because people type ids to revoke. */
function newId(): string {
  return randomBytes(5).toString("hex");
}

function principalId(id: string): string {
  return `token:${id}`;
}

function principalOf({ id, tenant, grant, expiresAt }: TokenRecord): Principal {
  const whose = { id: principalId(id), tenant, ...(expiresAt !== null && { until: expiresAt }) };
  return createPrincipal(whose, [grant as unknown as AccessGrant]);
}

function infoOf({ id, name, tenant, grant, createdAt, expiresAt, revokedAt }: TokenRecord): TokenInfo {
  return { id, name, tenant, ...(grant as unknown as AccessGrant), createdAt, expiresAt, revokedAt };
}

const UNKNOWN = "there is no such token here";

function unknown(): BerthError {
  return new BerthError("unauthorized", UNKNOWN);
}

/** Compares in a time that reveals nothing of either. */
function isSame(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}
