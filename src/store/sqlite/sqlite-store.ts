import { randomBytes } from "node:crypto";
import type Database from "#better-sqlite3";
import { rawBlock, type Cid } from "../../lib/cid.ts";
import { removeOrphanedDrafts } from "../../lib/draft-file.ts";
import { createYielder } from "../../lib/event-loop.ts";
import type { Log } from "../../lib/log.ts";
import { createRetainedCallStore } from "../retained-calls.ts";
import { byName, verifyBytes, verifyLongBytes, type ForeignChange } from "../rules.ts";
import type { Change, ChangedName, SecretStore, Store } from "../store.ts";
import { unlessDamaged } from "../unless-damaged.ts";
import { createValueStore } from "../values.ts";
import { withoutWaiting, attempt, attemptAll, attempting } from "./attempt.ts";
import { sqliteAuditLinks } from "./audit.ts";
import { storeNow } from "./clock.ts";
import { Collections } from "./collect.ts";
import { SqliteContent } from "./content.ts";
import { sqliteDerived } from "./derived.ts";
import { ForeignChanges } from "./foreign-changes.ts";
import { sqliteNames } from "./names.ts";
import { MailboxPoller, sqliteNodes } from "./nodes.ts";
import { closeDatabase, openDatabase } from "./open-database.ts";
import { sqliteRecords } from "./records.ts";
import { sqliteSecrets } from "./secrets.ts";
import { sqliteServerData } from "./server-data.ts";
import { StoredBytes } from "./stored-bytes.ts";
import { sqliteTenants } from "./tenants.ts";
import { sqliteTokens } from "./tokens.ts";
import { WriteAheadLog } from "./write-ahead-log.ts";

export interface SqliteStoreOptions {
  /** The folder of the database; created if missing. */
  readonly dataDir: string;
  /** How long a change waits for another process's change before it fails with `store_failed`. Default: 5,000. */
  readonly busyMs?: number;
  /** The size above which the log is moved into the database. Default: 16 MiB. */
  readonly logBytes?: number;
  /** Receives the errors of a failing disk. */
  readonly log?: Log;
  /** True if another thread of this process has the database open. By default, only this thread is considered. */
  readonly isOpenHere?: boolean;
}

const LOG_BYTES = 16 * 1024 * 1024;

/**
 * The store for one machine: a SQLite file that several processes can have open simultaneously. Each part owns its
 * tables; this file decides which writes wait for the disk, and turns all errors of SQLite into `store_failed`.
 */
export async function openSqliteStore(options: SqliteStoreOptions): Promise<Store & SecretStore> {
  const { dataDir, busyMs = 5_000, logBytes = LOG_BYTES } = options;
  const database = openDatabase(dataDir, busyMs, options.log, options.isOpenHere);
  removeOrphanedDrafts(dataDir);
  const log = new WriteAheadLog(database, logBytes, options.log);
  const contents = new SqliteContent(database);
  const storedBytes = new StoredBytes(database, log);
  const derived = sqliteDerived(database, contents, storedBytes);
  const names = sqliteNames(database, contents, derived, storedBytes);
  const records = sqliteRecords(database);
  const secrets = sqliteSecrets(database);
  const serverData = sqliteServerData(database, log, storedBytes);
  const nodes = sqliteNodes(database);
  const mailboxes = new MailboxPoller(() => log.version(), nodes.hasLetter);
  const foreignChanges = new ForeignChanges(database, log);
  const collections = new Collections({ file: database.name, busyMs }, log, storedBytes);
  const pages = database.prepare<[], number>("PRAGMA page_count").pluck();
  const pageBytes = database.prepare<[], number>("PRAGMA page_size").pluck();

  const content = async (tenant: string, cid: Cid): Promise<Uint8Array | undefined> => {
    const bytes = attempt(() => contents.read(tenant, cid));
    return bytes && verifyLongBytes(cid, bytes);
  };

  return {
    tenants: sqliteTenants(
      database,
      log,
      foreignChanges,
      (tenant) => storedBytes.forget(tenant),
      () => collections.erase(),
    ),
    tokens: sqliteTokens(database, log, foreignChanges),
    audit: sqliteAuditLinks(database, log, busyMs),

    values: createValueStore(serverData),
    retainedCalls: createRetainedCallStore(serverData),
    nodes: nodesStore(nodes, mailboxes, foreignChanges, log),
    ...secretsStore(secrets, foreignChanges, log),

    now: storeNow,

    content,
    contents: (tenant, cids) => readContents(cids, (cid) => content(tenant, cid)),

    name: attempting(names.get),
    names: attempting(names.list),
    meanings: attempting((tenant, { kinds, names: singleNames }) => ({
      latest: names.latest(),
      names: [
        ...kinds.flatMap((kind) => names.list(tenant, kind)),
        ...singleNames.flatMap(({ kind, name }) => names.get(tenant, kind, name) ?? []),
      ],
    })),
    latestChange: attempting(names.latest),
    changesAfter: attempting(names.changesAfter),
    history: attempting(names.history),
    had: attempting(names.had),

    async change(tenant, change) {
      const summing = change.storedBytesMax === undefined ? undefined : storedBytes.ready(tenant, "current");
      if (summing) await summing;
      for (const { cid, bytes } of change.put ?? []) verifyBytes(cid, bytes);
      for (const { block } of change.derived ?? []) verifyBytes(block.cid, block.bytes);
      const durable = log.writeDurably(() => foreignChanges.add(names.change(tenant, change)));
      return foreignChanges.notifyIfUncertain(changedNames(tenant, change), storedBytes.withUsage(tenant, durable));
    },

    onReplaced: (listener) => foreignChanges.onReplaced(listener),
    unheardMs: () => 0,

    onChange: (listener) =>
      foreignChanges.listen((changes) => {
        const names = changes.filter(isName);
        if (names.length > 0) listener(names);
      }),

    async derived(key) {
      const row = attempt(() => derived.get(key));
      return row && verifyLongBytes(row.cid, row.bytes);
    },

    async putDerived(tenant, entries) {
      for (const { block } of entries) verifyBytes(block.cid, block.bytes);
      // A result that is lost in a power cut can be derived again.
      await log.write(() => derived.put(tenant, entries));
    },

    async holdDerived(tenant, keys) {
      return attempt(() => derived.isHeld(tenant, keys)) || log.write(() => derived.hold(tenant, keys));
    },

    record: attempting(records.get),
    putRecord: (tenant, kind, key, put) => log.writeDurably(() => records.put(tenant, kind, key, put)),
    putRecords: (tenant, kind, puts) => log.write(() => records.putAll(tenant, kind, puts)),

    async check() {
      log.check();
      try {
        await log.writeDurably(() => withoutWaiting(database, busyMs, () => probe(database, names, records)));
      } catch (error) {
        // If another process is writing, writes work.
        if (((error as Error).cause as { code?: unknown } | undefined)?.code !== "SQLITE_BUSY") throw error;
      }
    },

    size: attempting(() => pages.get()! * pageBytes.get()!),
    use: (tenant) => attemptAll(() => storedBytes.use(tenant)),
    collect: (order) => attemptAll(() => collections.collect(order)),

    async close() {
      await collections.close();
      mailboxes.close();
      foreignChanges.close();
      await log.close();
      closeDatabase(database);
    },
  };
}

function nodesStore(
  nodes: ReturnType<typeof sqliteNodes>,
  mailboxes: MailboxPoller,
  foreignChanges: ForeignChanges,
  log: WriteAheadLog,
): Store["nodes"] {
  return {
    async beat(node, ms) {
      const beat = await log.write(() => nodes.beat(node, ms));
      mailboxes.adjustInterval(beat.living.length > 1);
      foreignChanges.adjustInterval(beat.living.length > 1);
      return beat;
    },
    leave: (node) => log.write(() => nodes.leave(node)),
    post: (from, letters) => log.write(() => nodes.post(from, letters)),
    take: async (node) => (attempt(() => nodes.hasLetter(node)) ? log.write(() => nodes.take(node)) : []),
    onLetter: (node, listener) => mailboxes.listen(node, listener),
    lease: (name, node) => log.write(() => nodes.lease(name, node)),
    leased: attempting(nodes.leased),
    endLease: (name, node) => log.write(() => nodes.endLease(name, node)),
  };
}

function secretsStore(
  secrets: ReturnType<typeof sqliteSecrets>,
  foreignChanges: ForeignChanges,
  log: WriteAheadLog,
): SecretStore {
  const change = (tenant: string, name: string, work: () => number | undefined): Promise<boolean> => {
    const durableChange = log.writeDurably(() => {
      const changeId = work();
      if (changeId !== undefined) foreignChanges.add([changeId]);
      return changeId !== undefined;
    });
    return foreignChanges.notifyIfUncertain([{ tenant, kind: "secret", name }], durableChange);
  };
  return {
    secret: attempting(secrets.get),
    secrets: async (tenant) => attempt(() => secrets.list(tenant)).sort(byName),
    secretKeyId: attempting(secrets.keyId),
    putSecret: (tenant, put) => change(tenant, put.name, () => secrets.put(tenant, put)),
    removeSecret: (tenant, name, by) => change(tenant, name, () => secrets.remove(tenant, name, by)),
    resealSecrets: (reseal, note) => log.writeDurably(() => secrets.reseal(reseal, note)),
  };
}

async function readContents(
  cids: Iterable<Cid>,
  read: (cid: Cid) => Promise<Uint8Array | undefined>,
): Promise<Map<Cid, Uint8Array>> {
  const contents = new Map<Cid, Uint8Array>();
  const yieldIfDue = createYielder();
  for (const cid of new Set(cids)) {
    await yieldIfDue();
    const bytes = await unlessDamaged(read(cid));
    if (bytes) contents.set(cid, bytes);
  }
  return contents;
}

/** Runs and rolls back a trial save, then writes a record that is never read. */
function probe(
  database: Database.Database,
  names: ReturnType<typeof sqliteNames>,
  records: ReturnType<typeof sqliteRecords>,
): void {
  const block = rawBlock(randomBytes(32));
  const set = [{ kind: "variable", name: block.cid, cid: block.cid }] as const;
  const trial = database.transaction(() => {
    names.change(CHECK_TENANT, { by: "check", put: [block], set });
    throw rollback;
  });
  const both = database.transaction(() => {
    try {
      trial();
    } catch (error) {
      if (error !== rollback) throw error;
    }
    records.writeNothing();
  });
  both.immediate();
}

/** Not a valid tenant name. */
const CHECK_TENANT = "~check";
const rollback = new Error("This is rolled back");

function changedNames(tenant: string, { set = [] }: Change): ChangedName[] {
  return set.map(({ kind, name }) => ({ tenant, kind, name }));
}

function isName(change: ForeignChange): change is ChangedName {
  return change.kind !== "tenant" && change.kind !== "token";
}
