import { randomBytes } from "node:crypto";
import { rawBlock, type Cid } from "../../lib/cid.ts";
import { removeLeftDrafts } from "../../lib/draft-file.ts";
import { nextTurn, turnTaker } from "../../lib/event-loop.ts";
import type { Log } from "../../lib/log.ts";
import { asStoreFailure } from "../../lib/store-failure.ts";
import { newAlias } from "../aliases.ts";
import { ifSound } from "../if-sound.ts";
import { byName, verified, verifiedInTurns, type ForeignChange } from "../rules.ts";
import { byServer } from "../state-room.ts";
import type { Change, ChangedName, SecretStore, Store } from "../store.ts";
import { atOnce, attempt, attemptAll } from "./attempt.ts";
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
import { sqliteRetainedCalls } from "./retained-calls.ts";
import { sqliteSecrets } from "./secrets.ts";
import { sqliteState } from "./state.ts";
import { shortWrites } from "./steps.ts";
import { StoredBytes } from "./stored-bytes.ts";
import { removeLeftovers } from "./tenant-staging.ts";
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
 * The store of one machine: a SQLite file, which several processes may have open at once. Each part keeps its own
 * tables; this file decides what waits for the disk, and turns whatever SQLite throws into `store_failed`.
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
  const state = sqliteState(database, storedBytes);
  const retainedCalls = sqliteRetainedCalls(database, storedBytes);
  const nodes = sqliteNodes(database);
  const boxes = new LetterBoxes(() => log.version(), nodes.hasLetter);
  const foreignChanges = new ForeignChanges(database, log);
  const collections = new Collections({ file: database.name, busyMs }, log, storedBytes);
  const pages = database.prepare<[], number>("PRAGMA page_count").pluck();
  const pageBytes = database.prepare<[], number>("PRAGMA page_size").pluck();

  /** Does what a save does and undoes it, then makes a write that nobody reads. */
  const probe = (): void => {
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
  };

  const keepSecret = (tenant: string, name: string, work: () => number | undefined): Promise<boolean> => {
    const kept = log.keep(() => {
      const changed = work();
      if (changed !== undefined) foreignChanges.add([changed]);
      return changed !== undefined;
    });
    return foreignChanges.tellIfUnsure([{ tenant, kind: "secret", name }], kept);
  };

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

    state: {
      get: async (tenant, server, key) => attempt(() => state.get(tenant, server, key)),
      list: async (tenant, server, part) => attempt(() => state.list(tenant, server, part)),
      async set(tenant, server, key, put) {
        const summing = put.room.storedBytesMax === undefined ? undefined : storedBytes.ready(tenant, "lately");
        if (summing) await summing;
        return storedBytes.toldByKind(
          tenant,
          log.keep(() => state.set(tenant, server, key, put)),
        );
      },
      async delete(tenant, server, key, removal = {}) {
        // After what was to be set before.
        const summing = storedBytes.underWay(tenant);
        if (summing) await summing;
        return log.keep(() => state.delete(tenant, server, key, removal));
      },
      async clear(tenant, server, by) {
        const keys = await log.keep(() => state.leave(tenant, server, by, newAlias()));
        await removeLeftovers(database, shortWrites(database, log));
        return keys;
      },
      sizes: async (tenant) => attempt(() => state.sizes(tenant)).sort(byServer),
    },

    retainedCalls: {
      async add(tenant, calls, room) {
        const summing = room.storedBytesMax === undefined ? undefined : storedBytes.ready(tenant, "lately");
        if (summing) await summing;
        await log.write(() => retainedCalls.add(tenant, calls, room));
      },
      list: async (tenant, server, part) => attempt(() => retainedCalls.list(tenant, server, part)),
      get: async (tenant, server, id) => attempt(() => retainedCalls.get(tenant, server, id)),
      servers: async () => attempt(() => retainedCalls.servers()),
      remove: (tenant, server, before = Number.MAX_SAFE_INTEGER) =>
        inSteps(() => log.write(() => retainedCalls.removeSome(tenant, server, before))),
      // Usually there is nothing to do, and nobody should wait for the lock.
      removeExpired: async () =>
        attempt(() => retainedCalls.hasExpired())
          ? inSteps(() => log.write(() => retainedCalls.removeSomeExpired()))
          : 0,
    },

    nodes: {
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
      leased: async (name) => attempt(() => nodes.leased(name)),
      endLease: (name, node) => log.write(() => nodes.endLease(name, node)),
    },

    now: storeNow,

    content,

    async contents(tenant, cids) {
      const found = new Map<Cid, Uint8Array>();
      const takeTurns = turnTaker();
      for (const cid of new Set(cids)) {
        await takeTurns();
        const bytes = await ifSound(content(tenant, cid));
        if (bytes) found.set(cid, bytes);
      }
      return found;
    },

    async name(tenant, kind, name) {
      return attempt(() => names.get(tenant, kind, name));
    },

    async names(tenant, kind) {
      return attempt(() => names.list(tenant, kind));
    },

    async meanings(tenant, asked) {
      return attempt(() => ({
        latest: names.latest(),
        names: [
          ...asked.kinds.flatMap((kind) => names.list(tenant, kind)),
          ...asked.names.flatMap(({ kind, name }) => names.get(tenant, kind, name) ?? []),
        ],
      }));
    },

    async latestChange() {
      return attempt(() => names.latest());
    },

    async changesAfter(tenant, kinds, since) {
      return attempt(() => names.changesAfter(tenant, kinds, since));
    },

    async history(tenant, kind, name, max) {
      return attempt(() => names.history(tenant, kind, name, max));
    },

    async had(tenant, kind, name, cid) {
      return attempt(() => names.had(tenant, kind, name, cid));
    },

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
      // A result lost in a power cut is made again.
      await log.write(() => derived.put(tenant, entries));
    },

    async holdDerived(tenant, keys) {
      return attempt(() => derived.isHeld(tenant, keys)) || log.write(() => derived.hold(tenant, keys));
    },

    async record(tenant, kind, key) {
      return attempt(() => records.get(tenant, kind, key));
    },

    putRecord: (tenant, kind, key, put) => log.keep(() => records.put(tenant, kind, key, put)),
    putRecords: (tenant, kind, puts) => log.write(() => records.putAll(tenant, kind, puts)),

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
      return keepSecret(tenant, put.name, () => secrets.put(tenant, put));
    },

    async removeSecret(tenant, name, by) {
      return keepSecret(tenant, name, () => secrets.remove(tenant, name, by));
    },

    async resealSecrets(reseal, note) {
      await log.keep(() => secrets.reseal(reseal, note));
    },

    async check() {
      log.check();
      try {
        await log.keep(() => atOnce(database, busyMs, probe));
      } catch (error) {
        // If another process is writing, writing works.
        if (((error as Error).cause as { code?: unknown } | undefined)?.code !== "SQLITE_BUSY") throw error;
      }
    },

    async size() {
      return attempt(() => pages.get()! * pageBytes.get()!);
    },

    async use(tenant) {
      return attemptAll(() => storedBytes.use(tenant));
    },

    async collect(order) {
      try {
        return await collections.collect(order);
      } catch (error) {
        throw asStoreFailure(error);
      }
    },

    async close() {
      await collections.close();
      boxes.close();
      foreignChanges.close();
      await log.close();
      closeDatabase(database);
    },
  };
}

/** Takes steps until one has nothing to do; calls go on in between. Returns what all have done. */
async function inSteps(step: () => Promise<number>): Promise<number> {
  for (let total = 0; ;) {
    const done = await step();
    if (done === 0) return total;
    total += done;
    await nextTurn();
  }
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
