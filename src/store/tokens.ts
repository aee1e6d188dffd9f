import { parseActor, auditEntry } from "../audit/audit-entry.ts";
import { BerthError } from "../lib/errors.ts";
import { appendLinks } from "./audit.ts";
import type { Dialect, RecordChanges } from "./dialect.ts";
import { readToken, tooManyTokens, type TokenRow } from "./rules.ts";
import { rows, type Steps } from "./steps.ts";
import type { NewTokenRecord, TokenRecord, TokenRecords } from "./store.ts";
import type { Changed } from "./tenants.ts";

/** Tokens. Their changes are recorded in the history of names, under the kind `token`. */

const COLUMNS = `id, tenant, hash, name, "grant", created_at AS "createdAt", expires_at AS "expiresAt", revoked_at AS "revokedAt"`;

export function* tokenByHash(hash: string): Steps<TokenRecord | undefined> {
  const [row] = yield* rows<TokenRow>(`SELECT ${COLUMNS} FROM token WHERE hash = $1`, [hash]);
  return row && readToken(row);
}

/** Newest first. */
export function* listTokens(
  tenant: string,
  { limit = Number.MAX_SAFE_INTEGER, after }: Parameters<TokenRecords["list"]>[1] = {},
): Steps<TokenRecord[]> {
  const found = yield* rows<TokenRow>(
    `SELECT ${COLUMNS} FROM token WHERE tenant = $1
     AND (CAST($2 AS text) IS NULL OR (-created_at, id) > (
       SELECT -created_at, id FROM token WHERE tenant = $1 AND id = $2))
     ORDER BY created_at DESC, id LIMIT $3`,
    [tenant, after, limit],
  );
  return found.map(readToken);
}

/** Returns which of the tokens are not revoked. */
export function* findActiveTokens(dialect: Dialect, ids: readonly string[]): Steps<Set<string>> {
  const found = yield* rows<{ id: string }>(
    `SELECT id FROM token WHERE ${dialect.oneOf("id", "$1")} AND revoked_at IS NULL`,
    [ids],
  );
  return new Set(found.map(({ id }) => id));
}

/** The transactions that change tokens. Each locks the tenant. */
export class TokenChanges {
  readonly #dialect: Dialect;
  readonly #recordChanges: RecordChanges;

  constructor(dialect: Dialect, recordChanges: RecordChanges) {
    this.#dialect = dialect;
    this.#recordChanges = recordChanges;
  }

  *add(token: NewTokenRecord, by: string, tokensMax: number): Steps<Changed<TokenRecord>> {
    const { id, tenant, hash, name, grant, expiresAt } = token;
    const [tenantRow] = yield* rows("SELECT 1 FROM tenant WHERE name = $1", [tenant]);
    if (!tenantRow) throw new BerthError("tenant_not_found", `"${tenant}"`);
    if (tokensMax !== Infinity) yield* removeEndedTokens(tenant, tokensMax);
    const [row] = yield* rows<TokenRow>(
      `INSERT INTO token (id, tenant, hash, name, "grant", created_at, expires_at)
       VALUES ($1, $2, $3, $4, $5, berth_now(), $6) RETURNING ${COLUMNS}`,
      [id, tenant, hash, name, JSON.stringify(grant), expiresAt],
    );
    const facts = { action: "created", ...parseActor(by), token: id, name, grant, expiresAt };
    yield* appendLinks(this.#dialect, [auditEntry(tenant, "token", facts)]);
    return { result: readToken(row!), changes: yield* this.#recordChange(tenant, id, row!.createdAt, by) };
  }

  /** Returns false if there is no such active token. */
  *revoke(tenant: string, id: string, by: string): Steps<Changed<boolean>> {
    const [revoked] = yield* rows<{ at: number }>(
      `UPDATE token SET revoked_at = berth_now() WHERE tenant = $1 AND id = $2 AND revoked_at IS NULL
       RETURNING revoked_at AS at`,
      [tenant, id],
    );
    if (!revoked) return { result: false, changes: [] };
    yield* appendLinks(this.#dialect, [
      auditEntry(tenant, "token", { action: "revoked", ...parseActor(by), token: id }),
    ]);
    return { result: true, changes: yield* this.#recordChange(tenant, id, revoked.at, by) };
  }

  #recordChange(tenant: string, name: string, changedAt: number, by: string): Steps<number[]> {
    return this.#recordChanges([{ tenant, kind: "token", name, cid: null, changedAt, by }]);
  }
}

function* removeEndedTokens(tenant: string, tokensMax: number): Steps<void> {
  const [existing] = yield* rows<{ count: number }>("SELECT count(*) AS count FROM token WHERE tenant = $1", [tenant]);
  const excess = existing!.count - tokensMax + 1;
  if (excess <= 0) return;
  const removed = yield* rows(
    `DELETE FROM token WHERE id IN (
       SELECT id FROM token WHERE tenant = $1 AND (revoked_at IS NOT NULL OR expires_at <= berth_now())
       ORDER BY coalesce(revoked_at, expires_at), id LIMIT $2) RETURNING id`,
    [tenant, excess],
  );
  if (removed.length < excess) throw tooManyTokens(tokensMax);
}
