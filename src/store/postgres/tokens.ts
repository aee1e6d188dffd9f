import { actorOf, entryOf } from "../../audit/audit-entry.ts";
import { BerthError } from "../../lib/errors.ts";
import { readToken, tooManyTokens, type TokenRow } from "../rules.ts";
import type { TokenRecords } from "../store.ts";
import { appendAudit } from "./audit.ts";
import type { PostgresDatabase, RunSql } from "./database.ts";
import type { Feed } from "./feed.ts";
import { runSteps } from "./steps.ts";

const COLUMNS = `id, tenant, hash, name, "grant", created_at AS "createdAt", expires_at AS "expiresAt", revoked_at AS "revokedAt"`;

/**
 * Tokens in Postgres. Their changes are logged among the changed names, under the kind `token`. `ask` is for questions of
 * those whose token is not known.
 */
export function postgresTokens(database: PostgresDatabase, ask: RunSql, feed: Feed): TokenRecords {
  const { run } = database;
  const noted = (tenant: string, id: string, changedAt: number, by: string) => [
    { tenant, kind: "token" as const, name: id, cid: null, changedAt, by },
  ];

  /** A new token is a change, too. Where the database does not say, none of them is trusted. */
  const ended = async (ids: readonly string[]): Promise<readonly string[]> => {
    if (ids.length === 0) return ids;
    try {
      const inForce = await run<{ id: string }>("SELECT id FROM token WHERE id = ANY ($1) AND revoked_at IS NULL", [
        ids,
      ]);
      return ids.filter((id) => !inForce.some((token) => token.id === id));
    } catch {
      return ids;
    }
  };

  return {
    async byHash(hash) {
      const [row] = await ask<TokenRow>(`SELECT ${COLUMNS} FROM token WHERE hash = $1`, [hash]);
      return row && readToken(row);
    },

    async list(tenant, { limit, after } = {}) {
      const rows = await run<TokenRow>(
        `SELECT ${COLUMNS} FROM token WHERE tenant = $1
         AND ($2::text IS NULL OR (-created_at, id) > (
           SELECT -created_at, id FROM token WHERE tenant = $1 AND id = $2))
         ORDER BY created_at DESC, id LIMIT $3`,
        [tenant, after, limit],
      );
      return rows.map(readToken);
    },

    add: ({ id, tenant, hash, name, grant, expiresAt }, by, tokensMax = Infinity) =>
      database.change(tenant, async (run) => {
        const [found] = await run("SELECT 1 FROM tenant WHERE name = $1", [tenant]);
        if (!found) throw new BerthError("tenant_not_found", `"${tenant}"`);
        if (tokensMax !== Infinity) await makeRoom(run, tenant, tokensMax);
        const [row] = await run<TokenRow>(
          `INSERT INTO token (id, tenant, hash, name, "grant", created_at, expires_at)
           VALUES ($1, $2, $3, $4, $5, berth_now(), $6) RETURNING ${COLUMNS}`,
          [id, tenant, hash, name, JSON.stringify(grant), expiresAt],
        );
        const facts = { action: "created", ...actorOf(by), token: id, name, grant, expiresAt };
        await appendAudit(run, entryOf(tenant, "token", facts));
        await runSteps(run, feed.record(noted(tenant, id, row!.createdAt, by)));
        return readToken(row!);
      }),

    revoke: (tenant, id, by) =>
      feed.telling([{ tenant, kind: "token", name: id }], () =>
        database.change(tenant, async (run) => {
          const [revoked] = await run<{ at: number }>(
            `UPDATE token SET revoked_at = berth_now() WHERE tenant = $1 AND id = $2 AND revoked_at IS NULL
             RETURNING revoked_at AS at`,
            [tenant, id],
          );
          if (!revoked) return false;
          await appendAudit(run, entryOf(tenant, "token", { action: "revoked", ...actorOf(by), token: id }));
          await runSteps(run, feed.record(noted(tenant, id, revoked.at, by)));
          return true;
        }),
      ),

    onRevoke: (listener) =>
      feed.listen((changed) => {
        const ids = changed.filter(({ kind }) => kind === "token").map(({ name }) => name);
        void ended(ids).then((ends) => ends.forEach((id) => listener(id)));
      }),
  };
}

async function makeRoom(run: RunSql, tenant: string, tokensMax: number): Promise<void> {
  const [there] = await run<{ count: number }>("SELECT count(*) FROM token WHERE tenant = $1", [tenant]);
  const excess = there!.count - tokensMax + 1;
  if (excess <= 0) return;
  const removed = await run(
    `DELETE FROM token WHERE id IN (
       SELECT id FROM token WHERE tenant = $1 AND (revoked_at IS NOT NULL OR expires_at <= berth_now())
       ORDER BY coalesce(revoked_at, expires_at), id LIMIT $2) RETURNING id`,
    [tenant, excess],
  );
  if (removed.length < excess) throw tooManyTokens(tokensMax);
}
