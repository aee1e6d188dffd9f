import { randomBytes } from "node:crypto";
import { isCid, rawBlock } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import type { Log } from "../../lib/log.ts";
import { createRetainedCallStore } from "../retained-calls.ts";
import { matchingContents, verifyLongBytes, type ForeignChange } from "../rules.ts";
import type { Change, SecretStore, Store } from "../store.ts";
import { createValueStore } from "../values.ts";
import { postgresAuditLinks } from "./audit.ts";
import { CollectionThreads } from "./collect.ts";
import { readBytes, readContent, readContents } from "./content.ts";
import { isUnencrypted, PostgresDatabase } from "./database.ts";
import { postgresDerived } from "./derived.ts";
import { Feed } from "./feed.ts";
import { admitKeys, type KeyProofs } from "./key-proofs.ts";
import { postgresNames } from "./names.ts";
import { postgresNodes } from "./nodes.ts";
import { postgresRecords } from "./records.ts";
import { postgresSecrets } from "./secrets.ts";
import { postgresServerData } from "./server-data.ts";
import { runSteps } from "./steps.ts";
import { StoredSums } from "./stored-bytes.ts";
import { postgresTenants } from "./tenants.ts";
import { postgresTokens } from "./tokens.ts";
import { upgradeDatabase } from "./upgrade.ts";

export interface PostgresStoreOptions {
  /** `postgres://user:password@host:port/database`, of the server that accepts writes. */
  readonly database: string;
  /** Receives the errors of Postgres and the network, which `store_failed` omits. */
  readonly log?: Log;
  /** A node with other keys than earlier nodes is rejected with `config_invalid`. */
  readonly keyProofs?: KeyProofs | undefined;
  /** The keys of a command do not count as those of a node. Default: false. */
  readonly isCommand?: boolean;
  /** How long a statement may take or wait for locks before it fails with `store_failed`. Default: 30,000. */
  readonly statementMs?: number;
}

/**
 * The store for several machines: a Postgres database shared by all nodes. Each part owns its tables; this file
 * assembles them. Creates missing tables. Rejects with `store_failed`.
 */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<Store & SecretStore> {
  const { database: url, log, keyProofs, isCommand, statementMs } = options;
  const database = new PostgresDatabase(url, log, statementMs);
  // Separate connections, so that heartbeats, changes and messages arrive under any load, and requests with invented
  // tokens delay no one else.
  const nodeDatabase = new PostgresDatabase(url, log, statementMs, 2);
  const tokenDatabase = new PostgresDatabase(url, log, statementMs, 2);
  const feedDatabase = new PostgresDatabase(url, log, statementMs, 1);
  const feed = new Feed(feedDatabase, url, log);
  for (const each of [database, nodeDatabase, tokenDatabase]) each.isUnreachable = () => feed.isUnreachable;
  feed.onSilent = () =>
    [database, nodeDatabase, tokenDatabase, feedDatabase].forEach((each) => each.endTimedConnections());
  const close = async (): Promise<void> => {
    await feed.close();
    await Promise.all([database, nodeDatabase, tokenDatabase, feedDatabase].map((each) => each.close()));
  };
  try {
    await upgradeDatabase(database, log);
    if (isUnencrypted(url))
      log?.warn(
        "the connection to the database is not encrypted; see docs/postgres.md for how to enable TLS in BERTH_DATABASE",
      );
    if (keyProofs) await admitKeys(database, keyProofs, !isCommand);
    await feed.open();
  } catch (error) {
    await close();
    throw error;
  }
  const storedBytes = new StoredSums();
  const serverData = postgresServerData(database, storedBytes);
  const collections = new CollectionThreads(url);
  const derived = postgresDerived(database);
  const names = postgresNames(database, feed, storedBytes);
  const records = postgresRecords(database);

  return {
    tenants: postgresTenants(database, feed, (tenant) => storedBytes.forget(tenant)),
    tokens: postgresTokens(database, tokenDatabase.run, feed),
    values: createValueStore(serverData),
    retainedCalls: createRetainedCallStore(serverData),
    nodes: postgresNodes(nodeDatabase, feed),
    audit: postgresAuditLinks(database),
    ...postgresSecrets(database, feed),

    now: () => feed.now(),

    async content(tenant, cid) {
      const bytes = isCid(cid) ? await readContent(database.run, tenant, cid) : undefined;
      return bytes && verifyLongBytes(cid, bytes);
    },

    async contents(tenant, cids) {
      const blocks = await readContents(database.run, tenant, cids.filter(isCid));
      return matchingContents(blocks);
    },

    name: names.get,
    names: names.list,
    meanings: names.meanings,
    changesAfter: names.changesAfter,
    latestChange: names.latest,
    history: names.history,
    had: names.had,

    async change(tenant, change) {
      for (const { cid, bytes } of change.put ?? []) await verifyLongBytes(cid, bytes);
      for (const { block } of change.derived ?? []) await verifyLongBytes(block.cid, block.bytes);
      return feed.notifyIfUncertain(changedNames(tenant, change), () =>
        database.change(tenant, (run) => names.change(run, tenant, change)),
      );
    },

    onChange: (listener) =>
      feed.listen((changes) => {
        const changed = changes.flatMap(({ tenant, kind, name }) =>
          kind === "tenant" || kind === "token" ? [] : [{ tenant, kind, name }],
        );
        if (changed.length > 0) listener(changed);
      }),

    onReplaced: (listener) => feed.onReplaced(listener),
    unheardMs: () => feed.unheardMs(),

    async derived(key) {
      const block = await readBytes(database.run, "derived JOIN content ON id = content_id WHERE key = $2", [key]);
      return block && verifyLongBytes(block.cid, block.bytes);
    },

    async putDerived(tenant, entries) {
      for (const { block } of entries) await verifyLongBytes(block.cid, block.bytes);
      await derived.put(tenant, entries);
    },

    holdDerived: derived.hold,

    record: records.get,
    async putRecord(tenant, kind, key, put) {
      return (await records.putAll(tenant, kind, [{ ...put, key }], true))[0];
    },
    putRecords: (tenant, kind, puts) => records.putAll(tenant, kind, puts, false),

    async check() {
      const block = rawBlock(randomBytes(32));
      const set = [{ kind: "variable", name: block.cid, cid: block.cid }] as const;
      try {
        await database.transaction(async (run) => {
          await run("SET LOCAL lock_timeout = 1000");
          await run("SAVEPOINT trial");
          await names.change(run, CHECK_TENANT, { by: "check", put: [block], set });
          await run("ROLLBACK TO SAVEPOINT trial");
          await records.writeNothing(run);
        });
      } catch (error) {
        // If another node is writing, writes work.
        if (((error as BerthError).cause as { code?: unknown } | undefined)?.code !== LOCK_TIMEOUT) throw error;
      }
    },

    async size() {
      const [size] = await database.run<{ bytes: number }>("SELECT pg_database_size(current_database()) AS bytes");
      return size!.bytes;
    },

    use: (tenant) => runSteps(database.run, storedBytes.current(tenant)),

    async collect(order) {
      const collected = await collections.collect(order);
      for (const { tenant } of order.tenants) storedBytes.forget(tenant);
      return collected;
    },

    async close() {
      await collections.close();
      await close();
    },
  };
}

/** Not a valid tenant name. */
const CHECK_TENANT = "~check";
const LOCK_TIMEOUT = "55P03";

function changedNames(tenant: string, { set = [] }: Change): ForeignChange[] {
  return set.map(({ kind, name }) => ({ tenant, kind, name }));
}
