import { flushLog } from "./flush-log.ts";
import { ForeignChanges, type ForeignChange } from "./foreign-changes.ts";
import { openDatabase } from "./open-database.ts";
import { sqliteAuditLinks } from "./sqlite-audit-links.ts";
import { SqliteAudit } from "./sqlite-audit.ts";
import { SqliteContent, verified } from "./sqlite-content.ts";
import { sqliteDerived } from "./sqlite-derived.ts";
import { byName, sqliteNames } from "./sqlite-names.ts";
import { sqliteRecords } from "./sqlite-records.ts";
import { sqliteSecrets } from "./sqlite-secrets.ts";
import { sqliteTenants } from "./sqlite-tenants.ts";
import { sqliteTokens } from "./sqlite-tokens.ts";
import { asStoreFailure, atOnce, attempt, withoutDisk } from "./sqlite-work.ts";
import { StoredBytes } from "./stored-bytes.ts";
import type { ChangedName, SecretStore, Store } from "./store.ts";

export interface SqliteStoreOptions {
  /** The folder of the database; made when it is missing. */
  readonly dataDir: string;
  /** How long a change waits for another process's change before it fails with `store_failed`. Default 5,000. */
  readonly busyMs?: number;
}

/**
 * The store of one machine: a SQLite file, which several processes may have open at once. Each part of it keeps its own
 * tables; here stands what is asked of the disk, and that whatever SQLite throws becomes `store_failed`.
 */
export async function openSqliteStore(options: SqliteStoreOptions): Promise<Store & SecretStore> {
  const { dataDir, busyMs = 5_000 } = options;
  const database = openDatabase(dataDir, busyMs);
  const contents = new SqliteContent(database);
  const storedBytes = new StoredBytes(database);
  const audit = new SqliteAudit(database);
  const names = sqliteNames(database, contents, storedBytes, audit);
  const derived = sqliteDerived(database, contents);
  const records = sqliteRecords(database);
  const secrets = sqliteSecrets(database, audit);
  const foreignChanges = new ForeignChanges(database);
  const pages = database.prepare<[], number>("PRAGMA page_count").pluck();
  const pageBytes = database.prepare<[], number>("PRAGMA page_size").pluck();
  const soon = <T>(work: () => T): T => withoutDisk(database, () => attempt(work));

  return {
    tenants: sqliteTenants(database, foreignChanges, audit, (tenant) => storedBytes.forget(tenant)),
    tokens: sqliteTokens(database, foreignChanges, audit),
    audit: sqliteAuditLinks(database, audit, busyMs),

    async content(tenant, cid) {
      const bytes = attempt(() => contents.read(tenant, cid));
      return bytes && verified(cid, bytes);
    },

    async name(tenant, kind, name) {
      return attempt(() => names.get(tenant, kind, name));
    },

    async names(tenant, kind) {
      return attempt(() => names.list(tenant, kind));
    },

    async history(tenant, kind, name) {
      return attempt(() => names.history(tenant, kind, name));
    },

    async change(tenant, change) {
      for (const block of change.put ?? []) verified(block.cid, block.bytes);
      foreignChanges.add(soon(() => names.change(tenant, change)));
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
      soon(() => derived.put(tenant, entries));
    },

    async holdDerived(tenant, keys) {
      return attempt(() => derived.isHeld(tenant, keys)) || soon(() => derived.hold(tenant, keys));
    },

    async record(tenant, kind, key) {
      return attempt(() => records.get(tenant, kind, key));
    },

    async putRecord(tenant, kind, key, put) {
      return attempt(() => records.put(tenant, kind, key, put));
    },

    async putRecords(tenant, kind, puts) {
      return soon(() => records.putAll(tenant, kind, puts));
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

    async resealSecrets(reseal, note) {
      attempt(() => secrets.reseal(reseal, note));
    },

    async check() {
      try {
        atOnce(database, busyMs, () => withoutDisk(database, () => records.writeNothing()));
      } catch (error) {
        // Where another process is writing, one can write.
        if ((error as { code?: unknown }).code !== "SQLITE_BUSY") throw asStoreFailure(error);
      }
    },

    async size() {
      return attempt(() => pages.get()! * pageBytes.get()!);
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
