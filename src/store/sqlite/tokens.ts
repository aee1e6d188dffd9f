import type Database from "#better-sqlite3";
import { actorOf, entryOf } from "../../audit/audit-entry.ts";
import { BerthError } from "../../lib/errors.ts";
import { readToken, tooManyTokens, type TokenRow } from "../rules.ts";
import type { NewTokenRecord, TokenRecords } from "../store.ts";
import { attempt } from "./attempt.ts";
import { appendAudit } from "./audit.ts";
import { storeNow } from "./clock.ts";
import type { ForeignChanges } from "./foreign-changes.ts";
import type { WriteAheadLog } from "./write-ahead-log.ts";

/** Tokens in a SQLite file. Their changes are logged among the changed names, under the kind `token`. */
export function sqliteTokens(
  database: Database.Database,
  log: WriteAheadLog,
  foreignChanges: ForeignChanges,
): TokenRecords {
  const statements = prepare(database);
  const makeRoom = (tenant: string, tokensMax: number, now: number): void => {
    const excess = statements.count.get(tenant)! - tokensMax + 1;
    if (excess <= 0 || statements.removeEnded.run({ tenant, now, excess }).changes >= excess) return;
    throw tooManyTokens(tokensMax);
  };

  const add = database.transaction((token: NewTokenRecord, by: string, tokensMax: number) => {
    const { id, tenant, hash, name, grant, expiresAt } = token;
    if (!statements.tenant.get(tenant)) throw new BerthError("tenant_not_found", `"${tenant}"`);
    const now = storeNow();
    makeRoom(tenant, tokensMax, now);
    statements.add.run(id, tenant, hash, name, JSON.stringify(grant), now, expiresAt);
    appendAudit(
      database,
      entryOf(tenant, "token", { action: "created", ...actorOf(by), token: id, name, grant, expiresAt }),
    );
    return Number(statements.recordChange.run(tenant, id, now, by).lastInsertRowid);
  });

  const revoke = database.transaction((tenant: string, id: string, by: string) => {
    const now = storeNow();
    if (statements.revoke.run(now, tenant, id).changes === 0) return undefined;
    appendAudit(database, entryOf(tenant, "token", { action: "revoked", ...actorOf(by), token: id }));
    return Number(statements.recordChange.run(tenant, id, now, by).lastInsertRowid);
  });

  return {
    async byHash(hash) {
      const row = attempt(() => statements.byHash.get(hash));
      return row && readToken(row);
    },
    list: async (tenant, { limit = -1, after = null } = {}) =>
      attempt(() => statements.list.all({ tenant, limit, after })).map(readToken),
    async add(token, by, tokensMax = Infinity) {
      await log.keep(() => foreignChanges.add([add.immediate(token, by, tokensMax)]));
      return readToken(statements.byHash.get(token.hash)!);
    },
    async revoke(tenant, id, by) {
      const revoked = log.keep(() => {
        const change = revoke.immediate(tenant, id, by);
        if (change !== undefined) foreignChanges.add([change]);
        return change !== undefined;
      });
      return foreignChanges.tellIfUnsure([{ tenant, kind: "token", name: id }], revoked);
    },
    onRevoke: (listener) =>
      foreignChanges.listen((changed) => {
        for (const { tenant, kind, name } of changed) {
          // A new token is a change, too.
          if (kind === "token" && !statements.inForce.get(tenant, name)) listener(name);
        }
      }),
  };
}

const COLUMNS = `id, tenant, hash, name, "grant", created_at AS createdAt, expires_at AS expiresAt, revoked_at AS revokedAt`;

function prepare(database: Database.Database) {
  return {
    tenant: database.prepare<[string]>("SELECT 1 FROM tenant WHERE name = ?"),
    byHash: database.prepare<[string], TokenRow>(`SELECT ${COLUMNS} FROM token WHERE hash = ?`),
    list: database.prepare<[{ tenant: string; limit: number; after: string | null }], TokenRow>(
      `WITH last AS (SELECT created_at AS at FROM token WHERE tenant = @tenant AND id = @after)
       SELECT ${COLUMNS} FROM token WHERE tenant = @tenant
       AND (@after IS NULL OR created_at < (SELECT at FROM last) OR (created_at = (SELECT at FROM last) AND id > @after))
       ORDER BY created_at DESC, id LIMIT @limit`,
    ),
    count: database.prepare<[string], number>("SELECT count(*) FROM token WHERE tenant = ?").pluck(),
    removeEnded: database.prepare<[{ tenant: string; now: number; excess: number }]>(
      `DELETE FROM token WHERE id IN (
         SELECT id FROM token WHERE tenant = @tenant AND (revoked_at IS NOT NULL OR expires_at <= @now)
         ORDER BY coalesce(revoked_at, expires_at), id LIMIT @excess)`,
    ),
    inForce: database.prepare<[string, string]>(
      "SELECT 1 FROM token WHERE tenant = ? AND id = ? AND revoked_at IS NULL",
    ),
    add: database.prepare<[string, string, string, string, string, number, number | null]>(
      `INSERT INTO token (id, tenant, hash, name, "grant", created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
    ),
    revoke: database.prepare<[number, string, string]>(
      "UPDATE token SET revoked_at = ? WHERE tenant = ? AND id = ? AND revoked_at IS NULL",
    ),
    recordChange: database.prepare<[string, string, number, string]>(
      "INSERT INTO name_change (tenant, kind, name, cid, changed_at, changed_by) VALUES (?, 'token', ?, NULL, ?, ?)",
    ),
  };
}
