import type Database from "better-sqlite3";
import type { Cid } from "../cid.ts";
import { BerthError } from "../errors.ts";
import { flushLog } from "./flush-log.ts";
import { ForeignChanges, type ForeignChange } from "./foreign-changes.ts";
import { openDatabase } from "./open-database.ts";
import { SqliteContent, verified } from "./sqlite-content.ts";
import { sqliteDerived } from "./sqlite-derived.ts";
import { sqliteSecrets } from "./sqlite-secrets.ts";
import { sqliteTenants } from "./sqlite-tenants.ts";
import { sqliteTokens } from "./sqlite-tokens.ts";
import { StoredBytes } from "./stored-bytes.ts";
import type {
  Change,
  ChangedName,
  KeyedRecordPut,
  NameChange,
  NameKind,
  NameMove,
  NameRecord,
  RecordKind,
  RecordPut,
  SecretStore,
  Store,
  StoredRecord,
} from "./store.ts";

export interface SqliteStoreOptions {
  /** The folder of the database; made when it is missing. */
  readonly dataDir: string;
  /** How long a change waits for another process's change before it fails with `store_failed`. Default 5,000. */
  readonly busyMs?: number;
}

/** The store of one machine: a SQLite file, which several processes may have open at once. */
export async function openSqliteStore(options: SqliteStoreOptions): Promise<Store & SecretStore> {
  const { dataDir, busyMs = 5_000 } = options;
  const database = openDatabase(dataDir, busyMs);
  const statements = prepare(database);
  const contents = new SqliteContent(database);
  const derived = sqliteDerived(database, contents);
  const secrets = sqliteSecrets(database);
  const foreignChanges = new ForeignChanges(database);
  const storedBytes = new StoredBytes(database);

  /** The number of the change; undefined when the name means this already. */
  const move = (
    tenant: string,
    by: string,
    changedAt: number,
    { kind, name, cid, expected }: NameMove,
  ): number | undefined => {
    const now = statements.name.get(tenant, kind, name)?.cid ?? null;
    if (expected !== undefined && expected !== now) {
      const data = { kind, name, expected, actual: now };
      throw new BerthError("name_moved", `${kind} "${name}" is ${now ?? "not there"}, not ${expected ?? "absent"}`, {
        data,
      });
    }
    if (cid === now) return undefined;
    if (cid === null) {
      statements.removeName.run(tenant, kind, name);
    } else {
      if (!contents.isClaimed(tenant, cid)) {
        throw new BerthError("content_missing", `${kind} "${name}" cannot be set to ${cid}`, { data: { cid } });
      }
      statements.setName.run(tenant, kind, name, cid, changedAt);
    }
    return Number(statements.recordChange.run(tenant, kind, name, cid, changedAt, by).lastInsertRowid);
  };

  const checkRoom = (bytes: number, storedBytesMax: number): void => {
    if (bytes <= storedBytesMax) return;
    const data = { bytes, storedBytesMax };
    throw new BerthError("storage_full", `it would be ${bytes} bytes, and may be ${storedBytesMax}`, { data });
  };

  const applyChange = database.transaction((tenant: string, change: Change) => {
    const { by, put = [], set = [], storedBytesMax } = change;
    const changedAt = Date.now();
    const stood = storedBytesMax === undefined ? 0 : storedBytes.of(tenant);
    let added = 0;
    for (const block of put) {
      if (contents.claim(tenant, block)) added += block.bytes.length;
    }
    if (storedBytesMax !== undefined) checkRoom(stood + added, storedBytesMax);
    return { added, moved: set.flatMap((nameMove) => move(tenant, by, changedAt, nameMove) ?? []) };
  });

  /** The log need not be on the disk to outlive this process; waiting here for the disk would hold up every call. */
  const withoutDisk = <T>(work: () => T): T => {
    database.pragma("synchronous = NORMAL");
    try {
      return work();
    } finally {
      database.pragma("synchronous = FULL");
    }
  };

  const putRecord = (tenant: string, kind: RecordKind, key: string, put: RecordPut): number | undefined => {
    const { value, expected, expiresAt } = put;
    const revision = statements.record.get(tenant, kind, key, Date.now())?.revision ?? 0;
    if (revision !== expected) return undefined;
    statements.putRecord.run(tenant, kind, key, revision + 1, value, expiresAt);
    return revision + 1;
  };

  const applyRecord = database.transaction((tenant: string, kind: RecordKind, key: string, put: RecordPut) => {
    statements.removeExpired.run(Date.now(), EXPIRED_AT_ONCE);
    return putRecord(tenant, kind, key, put);
  });

  const applyRecords = database.transaction((tenant: string, kind: RecordKind, puts: readonly KeyedRecordPut[]) => {
    statements.removeExpired.run(Date.now(), EXPIRED_AT_ONCE + puts.length);
    return puts.map((put) => putRecord(tenant, kind, put.key, put));
  });

  return {
    tenants: sqliteTenants(database, foreignChanges, (tenant) => storedBytes.forget(tenant)),
    tokens: sqliteTokens(database, foreignChanges),

    async content(tenant, cid) {
      const bytes = attempt(() => contents.read(tenant, cid));
      return bytes && verified(cid, bytes);
    },

    async name(tenant, kind, name) {
      const row = attempt(() => statements.name.get(tenant, kind, name));
      return row && record(kind, row);
    },

    async names(tenant, kind) {
      // SQLite sorts by UTF-8 bytes, which differs from code units beyond the basic plane.
      const rows = attempt(() => statements.names.all(tenant, kind));
      return rows.map((row) => record(kind, row)).sort(byName);
    },

    async history(tenant, kind, name) {
      return attempt(() => statements.history.all(tenant, kind, name));
    },

    async change(tenant, change) {
      for (const block of change.put ?? []) verified(block.cid, block.bytes);
      const { added, moved } = withoutDisk(() => attempt(() => applyChange.immediate(tenant, change)));
      storedBytes.added(tenant, added);
      foreignChanges.add(moved);
      await flushLog(database.name);
    },

    onReplaced: (listener) => foreignChanges.listenToReplacing(listener),

    onChange: (listener) =>
      foreignChanges.listen((changes) => {
        const names = changes.filter(isName);
        if (names.length > 0) listener(names);
      }),

    async derived(key) {
      const row = attempt(() => derived.get(key));
      return row && verified(row.cid, row.bytes);
    },

    async putDerived(tenant, entries) {
      for (const { block } of entries) verified(block.cid, block.bytes);
      // What was lost with the power is made again.
      withoutDisk(() => attempt(() => derived.put(tenant, entries)));
    },

    async holdDerived(tenant, keys) {
      return (
        attempt(() => derived.isHeld(tenant, keys)) || withoutDisk(() => attempt(() => derived.hold(tenant, keys)))
      );
    },

    async record(tenant, kind, key) {
      return attempt(() => statements.record.get(tenant, kind, key, Date.now()));
    },

    async putRecord(tenant, kind, key, put) {
      return attempt(() => applyRecord.immediate(tenant, kind, key, put));
    },

    async putRecords(tenant, kind, puts) {
      return withoutDisk(() => attempt(() => applyRecords.immediate(tenant, kind, puts)));
    },

    async secret(tenant, name) {
      return attempt(() => secrets.get(tenant, name));
    },

    async secrets(tenant) {
      return attempt(() => secrets.list(tenant)).sort(byName);
    },

    async secretKeyId() {
      return attempt(() => secrets.keyId());
    },

    async putSecret(tenant, put) {
      const changed = attempt(() => secrets.put(tenant, put));
      if (changed !== undefined) foreignChanges.add([changed]);
      return changed !== undefined;
    },

    async removeSecret(tenant, name, by) {
      const changed = attempt(() => secrets.remove(tenant, name, by));
      if (changed !== undefined) foreignChanges.add([changed]);
      return changed !== undefined;
    },

    async resealSecrets(reseal) {
      attempt(() => secrets.reseal(reseal));
    },

    async check() {
      database.pragma("busy_timeout = 0");
      try {
        withoutDisk(() => statements.writeNothing.run(Date.now()));
      } catch (error) {
        // Where another process is writing, one can write.
        if ((error as { code?: unknown }).code !== "SQLITE_BUSY") throw asStoreFailure(error);
      } finally {
        database.pragma(`busy_timeout = ${busyMs}`);
      }
    },

    async size() {
      return attempt(() => statements.pages.get()! * statements.pageBytes.get()!);
    },

    async close() {
      foreignChanges.close();
      database.close();
    },
  };
}

function isName(change: ForeignChange): change is ChangedName {
  return change.kind !== "tenant" && change.kind !== "token";
}

/** Expired records that one write takes away, so that none pays for all. */
const EXPIRED_AT_ONCE = 100;

interface NameRow {
  readonly name: string;
  readonly cid: Cid;
  readonly changedAt: number;
}

function prepare(database: Database.Database) {
  return {
    name: database.prepare<[string, string, string], NameRow>(
      "SELECT name, cid, changed_at AS changedAt FROM name WHERE tenant = ? AND kind = ? AND name = ?",
    ),
    names: database.prepare<[string, string], NameRow>(
      "SELECT name, cid, changed_at AS changedAt FROM name WHERE tenant = ? AND kind = ?",
    ),
    setName: database.prepare<[string, string, string, string, number]>(
      "INSERT OR REPLACE INTO name (tenant, kind, name, cid, changed_at) VALUES (?, ?, ?, ?, ?)",
    ),
    removeName: database.prepare<[string, string, string]>(
      "DELETE FROM name WHERE tenant = ? AND kind = ? AND name = ?",
    ),
    recordChange: database.prepare<[string, string, string, string | null, number, string]>(
      "INSERT INTO name_change (tenant, kind, name, cid, changed_at, changed_by) VALUES (?, ?, ?, ?, ?, ?)",
    ),
    history: database.prepare<[string, string, string], NameChange>(
      `SELECT cid, changed_at AS changedAt, changed_by AS "by" FROM name_change
       WHERE tenant = ? AND kind = ? AND name = ? ORDER BY id DESC`,
    ),
    record: database.prepare<[string, string, string, number], StoredRecord>(
      "SELECT value, revision FROM record WHERE tenant = ? AND kind = ? AND key = ? AND expires_at > ?",
    ),
    putRecord: database.prepare<[string, string, string, number, string, number]>(
      "INSERT OR REPLACE INTO record (tenant, kind, key, revision, value, expires_at) VALUES (?, ?, ?, ?, ?, ?)",
    ),
    removeExpired: database.prepare<[number, number]>(
      "DELETE FROM record WHERE id IN (SELECT id FROM record WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)",
    ),
    writeNothing: database.prepare<[number]>(
      "INSERT OR REPLACE INTO record (tenant, kind, key, revision, value, expires_at) VALUES ('', 'check', '', 1, '', ?)",
    ),
    pages: database.prepare<[], number>("PRAGMA page_count").pluck(),
    pageBytes: database.prepare<[], number>("PRAGMA page_size").pluck(),
  };
}

function record(kind: NameKind, row: NameRow): NameRecord {
  return { kind, name: row.name, cid: row.cid, changedAt: row.changedAt };
}

function byName(a: { name: string }, b: { name: string }): number {
  if (a.name === b.name) return 0;
  return a.name < b.name ? -1 : 1;
}

/** Runs what touches the file; whatever SQLite throws becomes `store_failed`. */
function attempt<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw asStoreFailure(error);
  }
}

function asStoreFailure(error: unknown): BerthError {
  if (error instanceof BerthError) return error;
  return new BerthError("store_failed", (error as Error).message, { cause: error });
}
