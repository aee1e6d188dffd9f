import type { JsonObject } from "../lib/json.ts";

/**
 * The access tokens of all tenants, as far as a store knows them: never a token itself, and not what its grant means.
 * What was revoked is kept as long as there is room, so that it can be told later what there was.
 */
export interface TokenRecords {
  /** Revoked and expired ones, too. */
  byHash(hash: string): Promise<TokenRecord | undefined>;

  /** The newest first; all of them, or so many after the one of an id. */
  list(tenant: string, part?: TokenPart): Promise<TokenRecord[]>;

  /**
   * Where the tenant has `tokensMax` already, those that have ended for longest go. Rejects with `tenant_not_found`, and
   * with `token_invalid` where that makes no room.
   */
  add(token: NewTokenRecord, by: string, tokensMax?: number): Promise<TokenRecord>;

  /** False when the tenant has no such token, or it was revoked before. */
  revoke(tenant: string, id: string, by: string): Promise<boolean>;

  /** Calls `listener` with the id of a token that was revoked, or went with its tenant: soon after another process did it. */
  onRevoke(listener: (id: string) => void): () => void;
}

export interface TokenPart {
  /** All of them without it. */
  readonly limit?: number;
  readonly after?: string | undefined;
}

export interface NewTokenRecord {
  /** Tells tokens apart, and is no secret. */
  readonly id: string;
  readonly tenant: string;
  readonly hash: string;
  /** What people call it. */
  readonly name: string;
  readonly grant: JsonObject;
  /** Milliseconds since the epoch; null for one that does not end by itself. */
  readonly expiresAt: number | null;
}

export interface TokenRecord extends NewTokenRecord {
  readonly createdAt: number;
  readonly revokedAt: number | null;
}
