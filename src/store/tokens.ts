import type { JsonObject } from "../lib/json.ts";

/**
 * The access tokens of all tenants, as far as a store knows them: never a token itself, nor the meaning of its grant.
 * Revoked tokens are kept while there is room, for later questions.
 */
export interface TokenRecords {
  /** Finds revoked and expired ones, too. */
  byHash(hash: string): Promise<TokenRecord | undefined>;

  /** The newest first: all of them, or a number of them after the one with an id. */
  list(tenant: string, part?: TokenPart): Promise<TokenRecord[]>;

  /**
   * Where the tenant already has `tokensMax`, the tokens that ended longest ago are removed. Rejects with
   * `tenant_not_found`, and with `token_invalid` where that makes no room.
   */
  add(token: NewTokenRecord, by: string, tokensMax?: number): Promise<TokenRecord>;

  /** False when the tenant has no such token, or it was already revoked. */
  revoke(tenant: string, id: string, by: string): Promise<boolean>;

  /**
   * Calls `listener` with the id of a token that was revoked or removed with its tenant: soon after another process did
   * it.
   */
  onRevoke(listener: (id: string) => void): () => void;
}

export interface TokenPart {
  /** By default all of them. */
  readonly limit?: number;
  readonly after?: string | undefined;
}

export interface NewTokenRecord {
  /** Identifies the token, and is no secret. */
  readonly id: string;
  readonly tenant: string;
  readonly hash: string;
  /** Its name for people. */
  readonly name: string;
  readonly grant: JsonObject;
  /** Milliseconds since the epoch; null for a token that never expires. */
  readonly expiresAt: number | null;
}

export interface TokenRecord extends NewTokenRecord {
  readonly createdAt: number;
  readonly revokedAt: number | null;
}
