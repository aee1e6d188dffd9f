import { parseActor, auditEntry, SERVICE } from "../../audit/audit-entry.ts";
import { byName } from "../rules.ts";
import type { SealedSecret, SecretPut, SecretStore } from "../store.ts";
import { appendAudit } from "./audit.ts";
import { lock, type PostgresDatabase } from "./database.ts";
import type { Feed } from "./feed.ts";
import { runSteps } from "./steps.ts";

const COLUMNS = `tenant, name, key_id AS "keyId", sealed, changed_at AS "changedAt", changed_by AS "by"`;

/** Secrets in Postgres. */
export function postgresSecrets(database: PostgresDatabase, feed: Feed): SecretStore {
  const { run } = database;
  const nameChange = (tenant: string, name: string, changedAt: number, by: string) => [
    { tenant, kind: "secret" as const, name, cid: null, changedAt, by },
  ];
  return {
    async secret(tenant, name) {
      const [secret] = await run<SealedSecret>(`SELECT ${COLUMNS} FROM secret WHERE tenant = $1 AND name = $2`, [
        tenant,
        name,
      ]);
      return secret;
    },

    async secrets(tenant) {
      return (await run<SealedSecret>(`SELECT ${COLUMNS} FROM secret WHERE tenant = $1`, [tenant])).sort(byName);
    },

    async secretKeyId() {
      const [any] = await run<{ keyId: string }>('SELECT key_id AS "keyId" FROM secret LIMIT 1');
      return any?.keyId;
    },

    putSecret: (tenant, { name, keyId, sealed, by, isKeyHeld }: SecretPut) =>
      feed.notifyIfUncertain([{ tenant, kind: "secret", name }], () =>
        database.change(tenant, async (run) => {
          // All secrets have the same key.
          await lock(run, "secrets", "");
          const [any] = await run<{ keyId: string }>('SELECT key_id AS "keyId" FROM secret LIMIT 1');
          if (any ? any.keyId !== keyId : isKeyHeld?.() === false) return false;
          const [put] = await run<{ changedAt: number }>(
            `INSERT INTO secret (tenant, name, key_id, sealed, changed_at, changed_by)
             VALUES ($1, $2, $3, $4, berth_now(), $5)
             ON CONFLICT (tenant, name) DO UPDATE
             SET sealed = excluded.sealed, changed_at = excluded.changed_at, changed_by = excluded.changed_by
             RETURNING changed_at AS "changedAt"`,
            [tenant, name, keyId, sealed, by],
          );
          await appendAudit(run, auditEntry(tenant, "secret", { action: "set", ...parseActor(by), name }));
          await runSteps(run, feed.record(nameChange(tenant, name, put!.changedAt, by)));
          return true;
        }),
      ),

    removeSecret: (tenant, name, by) =>
      feed.notifyIfUncertain([{ tenant, kind: "secret", name }], () =>
        database.change(tenant, async (run) => {
          const [removed] = await run<{ now: number }>(
            "DELETE FROM secret WHERE tenant = $1 AND name = $2 RETURNING berth_now() AS now",
            [tenant, name],
          );
          if (!removed) return false;
          await appendAudit(run, auditEntry(tenant, "secret", { action: "deleted", ...parseActor(by), name }));
          await runSteps(run, feed.record(nameChange(tenant, name, removed.now, by)));
          return true;
        }),
      ),

    resealSecrets: (reseal, note) =>
      database.transaction(
        async (run) => {
          await lock(run, "secrets", "");
          const all = await run<SealedSecret>(`SELECT ${COLUMNS} FROM secret ORDER BY tenant, name FOR UPDATE`);
          const resealed = reseal(all);
          await run(
            `UPDATE secret SET key_id = each.key_id, sealed = each.sealed
             FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[]) AS each (tenant, name, key_id, sealed)
             WHERE secret.tenant = each.tenant AND secret.name = each.name`,
            (["tenant", "name", "keyId", "sealed"] as const).map((column) => resealed.map((each) => each[column])),
          );
          if (!note) return;
          const key = resealed[0]?.keyId ?? null;
          const facts = { action: "rotated", ...parseActor(note.by), secrets: resealed.length, key };
          await appendAudit(run, auditEntry(SERVICE, "secret", facts));
        },
        // It may replace a key file, so it must not be repeated.
        { isOnce: true },
      ),
  };
}
