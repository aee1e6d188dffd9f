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

/** How long the store is not asked again for a token that it refused: nobody has one before it is kept. */
const REFUSED_MS = 1_000;
/** Access tokens that are cached, which saves a look-up in the store or a signature check. */
export const KNOWN_TOKENS = 10_000;

const bounds = fixed({
  /**
   * How long a token of Berth's own counts as valid before it is looked up again. A revocation is in force immediately,
   * also by another process; this is for the case that the notification is lost.
   */
  knownTokenMs: 60_000,
  /** Berth's own tokens of one tenant, including expired and revoked ones, which are deleted when others need the space. */
  tokensPerTenant: 10_000,
});

/**
 * Berth's own tokens: created, listed, revoked and verified. It owns what a token is valid for and how long; storage is
 * the store's business. A token is shown once, to its creator, and never again.
 */
export class Tokens {
  readonly #records: TokenRecords;
  /** By hash: a call costs one hash and one look-up here. */
  readonly #known: LastKnown<Known>;
  /** When the store said of a hash that it knows none, or that it was revoked. */
  readonly #refused: BoundedMap<string, { readonly at: number; readonly why: string }>;
  readonly #options: TokensOptions;
  readonly #stop: () => void;

  constructor(records: TokenRecords, options: TokensOptions) {
    this.#records = records;
    this.#known = new LastKnown(KNOWN_TOKENS, bounds.knownTokenMs + options.databaseOutageMs);
    this.#refused = new BoundedMap(KNOWN_TOKENS);
    this.#options = options;
    this.#stop = records.onRevoke((id) => this.#forget(id));
  }

  /** Milliseconds since the epoch, by the clock by which tokens expire. */
  now(): number {
    return this.#options.now?.() ?? Date.now();
  }

  /** Rejects with `tenant_not_found`, and with `token_invalid` if there are too many or they are made too often. */
  async create(tenant: string, wish: TokenRequest, by: string): Promise<CreatedToken> {
    this.#options.checkPace?.(tenant);
    const { name, grant, expiresAt } = wish;
    const token = newToken();
    // Short, because people type ids to revoke.
    const id = randomBytes(5).toString("hex");
    const plain = { ...grant } as unknown as JsonObject;
    const made = { id, tenant, hash: tokenHash(token), name, grant: plain, expiresAt };
    const record = await this.#records.add(made, by, bounds.tokensPerTenant);
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
    const known = this.#known.newerThan(bounds.knownTokenMs, hash);
    if (known) return this.#inForce(known.value.principal, tenant);
    const refused = this.#refused.get(hash);
    if (refused && performance.now() - refused.at < REFUSED_MS) throw new BerthError("unauthorized", refused.why);
    return this.#known.read(hash, () => this.#look(hash)).then(({ principal }) => this.#inForce(principal, tenant));
  }

  /** The tenant may be gone, and all of its tokens with it. */
  forgetTenant(tenant: string): void {
    this.#known.forget(({ principal }) => principal.tenant === tenant);
  }

  close(): void {
    this.#stop();
  }

  async #look(hash: string): Promise<Known> {
    const record = await this.#records.byHash(hash);
    const before = this.#known.newerThan(Infinity, hash)?.value;
    if (before && record?.revokedAt !== null) this.#forget(before.id);
    if (!record || !isSame(record.hash, hash)) throw this.#refuse(hash, UNKNOWN);
    if (record.revokedAt !== null) throw this.#refuse(hash, "it was revoked");
    // Simultaneous requests share one principal.
    return { id: record.id, principal: before?.principal ?? principalOf(record) };
  }

  #inForce(principal: Principal, tenant: string): Principal {
    if (principal.until !== undefined && principal.until <= this.now())
      throw new BerthError("unauthorized", "it has expired");
    // A token of another tenant looks like one that does not exist.
    if (principal.tenant !== tenant) throw new BerthError("unauthorized", UNKNOWN);
    return principal;
  }

  #refuse(hash: string, why: string): BerthError {
    this.#refused.set(hash, { at: performance.now(), why });
    return new BerthError("unauthorized", why);
  }

  #forget(id: string): void {
    this.#known.forget((known) => known.id === id);
    this.#options.onRevoked(principalId(id));
  }
}

interface TokensOptions extends Pick<Limits, "databaseOutageMs"> {
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

/** Compares in a time that reveals nothing of either. */
function isSame(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}
