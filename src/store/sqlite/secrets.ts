import type Database from "#better-sqlite3";
import { actorOf, entryOf, SERVICE } from "../../audit/audit-entry.ts";
import type { SealedSecret, SecretPut } from "../store.ts";
import { appendAudit } from "./audit.ts";
import { storeNow } from "./clock.ts";
import { stampEnd } from "./store-files.ts";

/** The part of the SQLite store that keeps secrets. Each function is one transaction. */
export function sqliteSecrets(database: Database.Database) {
  const columns = `tenant, name, key_id AS keyId, sealed, changed_at AS changedAt, changed_by AS "by"`;
  const one = database.prepare<[string, string], SealedSecret>(
    `SELECT ${columns} FROM secret WHERE tenant = ? AND name = ?`,
  );
  const ofTenant = database.prepare<[string], SealedSecret>(`SELECT ${columns} FROM secret WHERE tenant = ?`);
  const all = database.prepare<[], SealedSecret>(`SELECT ${columns} FROM secret`);
  const keyId = database.prepare<[], string>("SELECT key_id FROM secret LIMIT 1").pluck();
  const write = database.prepare<[string, string, string, Uint8Array, number, string]>(
    "INSERT OR REPLACE INTO secret (tenant, name, key_id, sealed, changed_at, changed_by) VALUES (?, ?, ?, ?, ?, ?)",
  );
  const remove = database.prepare<[string, string]>("DELETE FROM secret WHERE tenant = ? AND name = ?");
  const note = database.prepare<[string, string, number, string]>(
    "INSERT INTO name_change (tenant, kind, name, cid, changed_at, changed_by) VALUES (?, 'secret', ?, NULL, ?, ?)",
  );

  const put = database.transaction((tenant: string, { name, keyId: ownKeyId, sealed, by, isKeyHeld }: SecretPut) => {
    const inUse = keyId.get();
    if (inUse === undefined ? isKeyHeld?.() === false : inUse !== ownKeyId) return undefined;
    const changedAt = storeNow();
    write.run(tenant, name, ownKeyId, sealed, changedAt, by);
    appendAudit(database, entryOf(tenant, "secret", { action: "set", ...actorOf(by), name }));
    return Number(note.run(tenant, name, changedAt, by).lastInsertRowid);
  });

  const removeNoted = database.transaction((tenant: string, name: string, by: string) => {
    if (remove.run(tenant, name).changes === 0) return undefined;
    appendAudit(database, entryOf(tenant, "secret", { action: "deleted", ...actorOf(by), name }));
    return Number(note.run(tenant, name, storeNow(), by).lastInsertRowid);
  });

  const reseal = database.transaction((work: Reseal, note: { by: string } | undefined) => {
    const resealed = work(all.all());
    for (const { tenant, name, keyId, sealed, changedAt, by } of resealed) {
      write.run(tenant, name, keyId, sealed, changedAt, by);
    }
    if (!note) return;
    const facts = { action: "rotated", ...actorOf(note.by), secrets: resealed.length, key: resealed[0]?.keyId ?? null };
    appendAudit(database, entryOf(SERVICE, "secret", facts));
  });

  return {
    get: (tenant: string, name: string) => one.get(tenant, name),
    list: (tenant: string) => ofTenant.all(tenant),
    keyId: () => keyId.get(),
    /**
     * Returns the change's number; undefined when the existing secrets have another key, or there are none and the key
     * is no longer held.
     */
    put: (tenant: string, secret: SecretPut) => put.immediate(tenant, secret),
    /** Returns the number of the change; undefined when there is no such secret. */
    remove: (tenant: string, name: string, by: string) => removeNoted.immediate(tenant, name, by),
    reseal: (work: Reseal, note: { by: string } | undefined) => {
      reseal.immediate(work, note);
      // The log holds old pages. A current reader keeps it; then a later checkpoint removes them.
      stampEnd(database);
      database.pragma("wal_checkpoint(TRUNCATE)");
    },
  };
}

type Reseal = (secrets: readonly SealedSecret[]) => readonly SealedSecret[];
