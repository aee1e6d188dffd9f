import type Database from "#better-sqlite3";
import type { KeyedRecordPut, RecordKind, RecordPut, StoredRecord } from "../../lib/records.ts";
import type { SealedSecret, SecretPut } from "../store.ts";
import { actorOf, entryOf, SERVICE } from "../../audit/audit-entry.ts";
import type { SqliteAudit } from "./audit.ts";

/** The most expired records that one write removes, so that no single write pays for all. */
const EXPIRED_AT_ONCE = 100;

/** The part of the SQLite store that keeps records that expire. Each function is one transaction. */
export function sqliteRecords(database: Database.Database) {
  const get = database.prepare<[string, string, string, number], StoredRecord>(
    "SELECT value, revision FROM record WHERE tenant = ? AND kind = ? AND key = ? AND expires_at > ?",
  );
  const getRevision = database.prepare<[string, string, string, number], Pick<StoredRecord, "revision">>(
    "SELECT revision FROM record WHERE tenant = ? AND kind = ? AND key = ? AND expires_at > ?",
  );
  const write = database.prepare<[string, string, string, number, string, number]>(
    "INSERT OR REPLACE INTO record (tenant, kind, key, revision, value, expires_at) VALUES (?, ?, ?, ?, ?, ?)",
  );
  const removeExpired = database.prepare<[number, number]>(
    "DELETE FROM record WHERE id IN (SELECT id FROM record WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)",
  );
  const writeNothing = database.prepare<[number]>(
    "INSERT OR REPLACE INTO record (tenant, kind, key, revision, value, expires_at) VALUES ('', 'check', '', 1, '', ?)",
  );

  const putOne = (tenant: string, kind: RecordKind, key: string, put: RecordPut): number | undefined => {
    const { value, expected, expiresAt } = put;
    const revision = getRevision.get(tenant, kind, key, Date.now())?.revision ?? 0;
    if (revision !== expected) return undefined;
    write.run(tenant, kind, key, revision + 1, value, expiresAt);
    return revision + 1;
  };

  const put = database.transaction((tenant: string, kind: RecordKind, key: string, one: RecordPut) => {
    removeExpired.run(Date.now(), EXPIRED_AT_ONCE);
    return putOne(tenant, kind, key, one);
  });

  const putAll = database.transaction((tenant: string, kind: RecordKind, puts: readonly KeyedRecordPut[]) => {
    removeExpired.run(Date.now(), EXPIRED_AT_ONCE + puts.length);
    return puts.map((each) => putOne(tenant, kind, each.key, each));
  });

  return {
    get: (tenant: string, kind: RecordKind, key: string) => get.get(tenant, kind, key, Date.now()),
    put: (tenant: string, kind: RecordKind, key: string, one: RecordPut) => put.immediate(tenant, kind, key, one),
    putAll: (tenant: string, kind: RecordKind, puts: readonly KeyedRecordPut[]) => putAll.immediate(tenant, kind, puts),
    /** Makes a write that nobody reads. */
    writeNothing: () => void writeNothing.run(Date.now()),
  };
}

/** The part of the SQLite store that keeps secrets. Each function is one transaction. */
export function sqliteSecrets(database: Database.Database, audit: SqliteAudit) {
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
    const changedAt = Date.now();
    write.run(tenant, name, ownKeyId, sealed, changedAt, by);
    audit.append(entryOf(tenant, "secret", { action: "set", ...actorOf(by), name }));
    return Number(note.run(tenant, name, changedAt, by).lastInsertRowid);
  });

  const removeNoted = database.transaction((tenant: string, name: string, by: string) => {
    if (remove.run(tenant, name).changes === 0) return undefined;
    audit.append(entryOf(tenant, "secret", { action: "deleted", ...actorOf(by), name }));
    return Number(note.run(tenant, name, Date.now(), by).lastInsertRowid);
  });

  const reseal = database.transaction((work: Reseal, note: { by: string } | undefined) => {
    const resealed = work(all.all());
    for (const { tenant, name, keyId, sealed, changedAt, by } of resealed) {
      write.run(tenant, name, keyId, sealed, changedAt, by);
    }
    if (!note) return;
    const facts = { action: "rotated", ...actorOf(note.by), secrets: resealed.length, key: resealed[0]?.keyId ?? null };
    audit.append(entryOf(SERVICE, "secret", facts));
  });

  /** Overwrites the previous sealed value on the disk, too: its key may be compromised. */
  const wiping = <T>(work: () => T): T => {
    database.pragma("secure_delete = ON");
    try {
      return work();
    } finally {
      database.pragma("secure_delete = OFF");
    }
  };

  return {
    get: (tenant: string, name: string) => one.get(tenant, name),
    list: (tenant: string) => ofTenant.all(tenant),
    keyId: () => keyId.get(),
    /**
     * Returns the change's number; undefined when the existing secrets have another key, or there are none and the key
     * is no longer held.
     */
    put: (tenant: string, secret: SecretPut) => wiping(() => put.immediate(tenant, secret)),
    /** Returns the number of the change; undefined when there is no such secret. */
    remove: (tenant: string, name: string, by: string) => wiping(() => removeNoted.immediate(tenant, name, by)),
    reseal: (work: Reseal, note: { by: string } | undefined) => {
      wiping(() => reseal.immediate(work, note));
      // The log holds old pages. A current reader keeps it; then a later checkpoint removes them.
      database.pragma("wal_checkpoint(TRUNCATE)");
    },
  };
}

type Reseal = (secrets: readonly SealedSecret[]) => readonly SealedSecret[];
