import type Database from "#better-sqlite3";
import { parseActor, auditEntry, SERVICE } from "../../audit/audit-entry.ts";
import type { SealedSecret, SecretPut } from "../store.ts";
import { appendAudit } from "./audit.ts";
import { storeNow } from "./clock.ts";
import { tryStampLog } from "./store-files.ts";

/** Secrets in SQLite. Each function is a transaction. */
export function sqliteSecrets(database: Database.Database) {
  const columns = `tenant, name, key_id AS keyId, sealed, changed_at AS changedAt, changed_by AS "by"`;
  const getOne = database.prepare<[string, string], SealedSecret>(
    `SELECT ${columns} FROM secret WHERE tenant = ? AND name = ?`,
  );
  const listByTenant = database.prepare<[string], SealedSecret>(`SELECT ${columns} FROM secret WHERE tenant = ?`);
  const listAll = database.prepare<[], SealedSecret>(`SELECT ${columns} FROM secret`);
  const currentKeyId = database.prepare<[], string>("SELECT key_id FROM secret LIMIT 1").pluck();
  const write = database.prepare<[string, string, string, Uint8Array, number, string]>(
    "INSERT OR REPLACE INTO secret (tenant, name, key_id, sealed, changed_at, changed_by) VALUES (?, ?, ?, ?, ?, ?)",
  );
  const remove = database.prepare<[string, string]>("DELETE FROM secret WHERE tenant = ? AND name = ?");
  const insertChange = database.prepare<[string, string, number, string]>(
    "INSERT INTO name_change (tenant, kind, name, cid, changed_at, changed_by) VALUES (?, 'secret', ?, NULL, ?, ?)",
  );

  const put = database.transaction((tenant: string, { name, keyId: newKeyId, sealed, by, isKeyHeld }: SecretPut) => {
    const usedKeyId = currentKeyId.get();
    if (usedKeyId === undefined ? isKeyHeld?.() === false : usedKeyId !== newKeyId) return undefined;
    const changedAt = storeNow();
    write.run(tenant, name, newKeyId, sealed, changedAt, by);
    appendAudit(database, auditEntry(tenant, "secret", { action: "set", ...parseActor(by), name }));
    return Number(insertChange.run(tenant, name, changedAt, by).lastInsertRowid);
  });

  const removeAndRecord = database.transaction((tenant: string, name: string, by: string) => {
    if (remove.run(tenant, name).changes === 0) return undefined;
    appendAudit(database, auditEntry(tenant, "secret", { action: "deleted", ...parseActor(by), name }));
    return Number(insertChange.run(tenant, name, storeNow(), by).lastInsertRowid);
  });

  const reseal = database.transaction((work: Reseal, note: { by: string } | undefined) => {
    const resealed = work(listAll.all());
    for (const { tenant, name, keyId, sealed, changedAt, by } of resealed) {
      write.run(tenant, name, keyId, sealed, changedAt, by);
    }
    if (!note) return;
    const facts = {
      action: "rotated",
      ...parseActor(note.by),
      secrets: resealed.length,
      key: resealed[0]?.keyId ?? null,
    };
    appendAudit(database, auditEntry(SERVICE, "secret", facts));
  });

  return {
    get: (tenant: string, name: string) => getOne.get(tenant, name),
    list: (tenant: string) => listByTenant.all(tenant),
    keyId: () => currentKeyId.get(),
    /**
     * Returns the number of the change; undefined if the existing secrets have another key, or if there are none and
     * the key is no longer held.
     */
    put: (tenant: string, secret: SecretPut) => put.immediate(tenant, secret),
    /** Returns the number of the change; undefined if there is no such secret. */
    remove: (tenant: string, name: string, by: string) => removeAndRecord.immediate(tenant, name, by),
    reseal: (work: Reseal, note: { by: string } | undefined) => {
      reseal.immediate(work, note);
      // The log contains old pages. If a reader prevents the truncation, a later checkpoint removes them.
      tryStampLog(database);
      database.pragma("wal_checkpoint(TRUNCATE)");
    },
  };
}

type Reseal = (secrets: readonly SealedSecret[]) => readonly SealedSecret[];
