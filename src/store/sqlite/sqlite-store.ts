import { randomBytes } from "node:crypto";
import type Database from "#better-sqlite3";
import { rawBlock, type Cid } from "../../lib/cid.ts";
import { removeLeftDrafts } from "../../lib/draft-file.ts";
import { turnTaker } from "../../lib/event-loop.ts";
import type { Log } from "../../lib/log.ts";
import { ifSound } from "../if-sound.ts";
import { retainedCallsIn } from "../retained-calls.ts";
import { byName, verified, verifiedInTurns, type ForeignChange } from "../rules.ts";
import type { Change, ChangedName, SecretStore, Store } from "../store.ts";
import { valuesIn } from "../values.ts";
import { atOnce, attempt, attemptAll, attempting } from "./attempt.ts";
import { sqliteAuditLinks } from "./audit.ts";
import { storeNow } from "./clock.ts";
import { Collections } from "./collect.ts";
import { SqliteContent } from "./content.ts";
import { sqliteDerived } from "./derived.ts";
import { ForeignChanges } from "./foreign-changes.ts";
import { sqliteNames } from "./names.ts";
import { LetterBoxes, sqliteNodes } from "./nodes.ts";
import { closeDatabase, openDatabase } from "./open-database.ts";
import { sqliteRecords } from "./records.ts";
import { sqliteSecrets } from "./secrets.ts";
import { sqliteServerData } from "./server-data.ts";
import { StoredBytes } from "./stored-bytes.ts";
import { sqliteTenants } from "./tenants.ts";
import { sqliteTokens } from "./tokens.ts";
import { WriteAheadLog } from "./write-ahead-log.ts";

export interface SqliteStoreOptions {
  /** The folder of the database; made when it is missing. */
  readonly dataDir: string;
  /** How long a change waits for another process's change before it fails with `store_failed`. Default 5,000. */
  readonly busyMs?: number;
  /** The log size above which it is moved into the database. Default 16 MiB. */
  readonly logBytes?: number;
  /** Gets a failing disk's errors. */
  readonly log?: Log;
  /** True if another thread of this process has the database open. Default: as this thread knows. */
  readonly isOpenHere?: boolean;
}

const LOG_BYTES = 16 * 1024 * 1024;

/**
 * The store of one machine: a SQLite file, which several processes may have open at the same time. Each part owns its
 * tables; this file decides which writes wait for the disk, and turns all errors of SQLite into `store_failed`.
 */
export async function openSqliteStore(options: SqliteStoreOptions): Promise<Store & SecretStore> {
  const { dataDir, busyMs = 5_000, logBytes = LOG_BYTES } = options;
  const database = openDatabase(dataDir, busyMs, options.log, options.isOpenHere);
  removeLeftDrafts(dataDir);
  const log = new WriteAheadLog(database, logBytes, options.log);
  const contents = new SqliteContent(database);
  const storedBytes = new StoredBytes(database, log);
  const derived = sqliteDerived(database, contents, storedBytes);
  const names = sqliteNames(database, contents, derived, storedBytes);
  const records = sqliteRecords(database);
  const secrets = sqliteSecrets(database);
  const serverData = sqliteServerData(database, log, storedBytes);
  const nodes = sqliteNodes(database);
  const boxes = new LetterBoxes(() => log.version(), nodes.hasLetter);
  const foreignChanges = new ForeignChanges(database, log);
  const collections = new Collections({ file: database.name, busyMs }, log, storedBytes);
  const pages = database.prepare<[], number>("PRAGMA page_count").pluck();
  const pageBytes = database.prepare<[], number>("PRAGMA page_size").pluck();

  const content = async (tenant: string, cid: Cid): Promise<Uint8Array | undefined> => {
    const bytes = attempt(() => contents.read(tenant, cid));
    return bytes && verifiedInTurns(cid, bytes);
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

    values: valuesIn(serverData),
    retainedCalls: retainedCallsIn(serverData),
    nodes: nodesStore(nodes, boxes, foreignChanges, log),
    ...secretsStore(secrets, foreignChanges, log),

    now: storeNow,

    content,
    contents: (tenant, cids) => readContents(cids, (cid) => content(tenant, cid)),

    name: attempting(names.get),
    names: attempting(names.list),
    meanings: attempting((tenant, { kinds, names: asked }) => ({
      latest: names.latest(),
      names: [
        ...kinds.flatMap((kind) => names.list(tenant, kind)),
        ...asked.flatMap(({ kind, name }) => names.get(tenant, kind, name) ?? []),
      ],
    })),
    latestChange: attempting(names.latest),
    changesAfter: attempting(names.changesAfter),
    history: attempting(names.history),
    had: attempting(names.had),

    async change(tenant, change) {
      const summing = change.storedBytesMax === undefined ? undefined : storedBytes.ready(tenant, "of");
      if (summing) await summing;
      for (const { cid, bytes } of change.put ?? []) verified(cid, bytes);
      for (const { block } of change.derived ?? []) verified(block.cid, block.bytes);
      const kept = log.keep(() => foreignChanges.add(names.change(tenant, change)));
      return foreignChanges.tellIfUnsure(namesOf(tenant, change), storedBytes.toldByKind(tenant, kept));
    },

    onReplaced: (listener) => foreignChanges.listenToReplacing(listener),
    unheardMs: () => 0,

    onChange: (listener) =>
      foreignChanges.listen((changes) => {
        const names = changes.filter(isName);
        if (names.length > 0) listener(names);
      }),

    async derived(key) {
      const row = attempt(() => derived.get(key));
      return row && verifiedInTurns(row.cid, row.bytes);
    },

    async putDerived(tenant, entries) {
      for (const { block } of entries) verified(block.cid, block.bytes);
      // A result that is lost in a power cut is computed again.
      await log.write(() => derived.put(tenant, entries));
    },

    async holdDerived(tenant, keys) {
      return attempt(() => derived.isHeld(tenant, keys)) || log.write(() => derived.hold(tenant, keys));
    },

    record: attempting(records.get),
    putRecord: (tenant, kind, key, put) => log.keep(() => records.put(tenant, kind, key, put)),
    putRecords: (tenant, kind, puts) => log.write(() => records.putAll(tenant, kind, puts)),

    async check() {
      log.check();
      try {
        await log.keep(() => atOnce(database, busyMs, () => probe(database, names, records)));
      } catch (error) {
        // If another process is writing, writing works.
        if (((error as Error).cause as { code?: unknown } | undefined)?.code !== "SQLITE_BUSY") throw error;
      }
    },

    size: attempting(() => pages.get()! * pageBytes.get()!),
    use: (tenant) => attemptAll(() => storedBytes.use(tenant)),
    collect: (order) => attemptAll(() => collections.collect(order)),

    async close() {
      await collections.close();
      boxes.close();
      foreignChanges.close();
      await log.close();
      closeDatabase(database);
    },
  };
}

function nodesStore(
  nodes: ReturnType<typeof sqliteNodes>,
  boxes: LetterBoxes,
  foreignChanges: ForeignChanges,
  log: WriteAheadLog,
): Store["nodes"] {
  return {
    async beat(node, ms) {
      const beat = await log.write(() => nodes.beat(node, ms));
      boxes.expect(beat.living.length > 1);
      foreignChanges.expect(beat.living.length > 1);
      return beat;
    },
    leave: (node) => log.write(() => nodes.leave(node)),
    post: (from, letters) => log.write(() => nodes.post(from, letters)),
    take: async (node) => (attempt(() => nodes.hasLetter(node)) ? log.write(() => nodes.take(node)) : []),
    onLetter: (node, listener) => boxes.listen(node, listener),
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
    const changing = log.keep(() => {
      const changed = work();
      if (changed !== undefined) foreignChanges.add([changed]);
      return changed !== undefined;
    });
    return foreignChanges.tellIfUnsure([{ tenant, kind: "secret", name }], changing);
  };
  return {
    secret: attempting(secrets.get),
    secrets: async (tenant) => attempt(() => secrets.list(tenant)).sort(byName),
    secretKeyId: attempting(secrets.keyId),
    putSecret: (tenant, put) => change(tenant, put.name, () => secrets.put(tenant, put)),
    removeSecret: (tenant, name, by) => change(tenant, name, () => secrets.remove(tenant, name, by)),
    resealSecrets: (reseal, note) => log.keep(() => secrets.reseal(reseal, note)),
  };
}

async function readContents(
  cids: Iterable<Cid>,
  read: (cid: Cid) => Promise<Uint8Array | undefined>,
): Promise<Map<Cid, Uint8Array>> {
  const found = new Map<Cid, Uint8Array>();
  const takeTurns = turnTaker();
  for (const cid of new Set(cids)) {
    await takeTurns();
    const bytes = await ifSound(read(cid));
    if (bytes) found.set(cid, bytes);
  }
  return found;
}

/** Runs and rolls back what a save does, then writes a record that is never read. */
function probe(
  database: Database.Database,
  names: ReturnType<typeof sqliteNames>,
  records: ReturnType<typeof sqliteRecords>,
): void {
  const block = rawBlock(randomBytes(32));
  const set = [{ kind: "variable", name: block.cid, cid: block.cid }] as const;
  const trial = database.transaction(() => {
    names.change(NOBODY, { by: "check", put: [block], set });
    throw undone;
  });
  const both = database.transaction(() => {
    try {
      trial();
    } catch (error) {
      if (error !== undone) throw error;
    }
    records.writeNothing();
  });
  both.immediate();
}

/** No tenant can have this name. */
const NOBODY = "~check";
const undone = new Error("This is undone");

function namesOf(tenant: string, { set = [] }: Change): ChangedName[] {
  return set.map(({ kind, name }) => ({ tenant, kind, name }));
}

function isName(change: ForeignChange): change is ChangedName {
  return change.kind !== "tenant" && change.kind !== "token";
}
