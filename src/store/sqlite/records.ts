import type Database from "#better-sqlite3";
import type { KeyedRecordPut, RecordKind, RecordPut, StoredRecord } from "../../lib/records.ts";
import { storeNow } from "./clock.ts";

/** The maximum number and size of expired records that one write removes, so that no single write pays for all. */
const EXPIRED_AT_ONCE = 100;
const EXPIRED_BYTES_AT_ONCE = 2 * 1024 * 1024;

/** Expiring records in SQLite. Each function is a transaction. */
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
    `DELETE FROM record WHERE id IN (SELECT id FROM (
       SELECT id, sum(bytes) OVER (ORDER BY expires_at, id) - bytes AS before FROM (
         SELECT id, expires_at, octet_length(value) AS bytes FROM record WHERE expires_at <= ? ORDER BY expires_at LIMIT ?))
     WHERE before < ${EXPIRED_BYTES_AT_ONCE})`,
  );
  const writeNothing = database.prepare<[number]>(
    "INSERT OR REPLACE INTO record (tenant, kind, key, revision, value, expires_at) VALUES ('', 'check', '', 1, '', ?)",
  );

  const putOne = (tenant: string, kind: RecordKind, key: string, put: RecordPut): number | undefined => {
    const { value, expected, expiresAt } = put;
    const revision = getRevision.get(tenant, kind, key, storeNow())?.revision ?? 0;
    if (revision !== expected) return undefined;
    write.run(tenant, kind, key, revision + 1, value, expiresAt);
    return revision + 1;
  };

  const put = database.transaction((tenant: string, kind: RecordKind, key: string, recordPut: RecordPut) => {
    removeExpired.run(storeNow(), EXPIRED_AT_ONCE);
    return putOne(tenant, kind, key, recordPut);
  });

  const putAll = database.transaction((tenant: string, kind: RecordKind, puts: readonly KeyedRecordPut[]) => {
    removeExpired.run(storeNow(), EXPIRED_AT_ONCE + puts.length);
    return puts.map((each) => putOne(tenant, kind, each.key, each));
  });

  return {
    get: (tenant: string, kind: RecordKind, key: string) => get.get(tenant, kind, key, storeNow()),
    put: (tenant: string, kind: RecordKind, key: string, recordPut: RecordPut) =>
      put.immediate(tenant, kind, key, recordPut),
    putAll: (tenant: string, kind: RecordKind, puts: readonly KeyedRecordPut[]) => putAll.immediate(tenant, kind, puts),
    /** A write without an effect. */
    writeNothing: () => void writeNothing.run(storeNow()),
  };
}
