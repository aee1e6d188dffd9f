import { randomBytes } from "node:crypto";
import { isCid, rawBlock } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import type { Log } from "../../lib/log.ts";
import { retainedCallsIn } from "../retained-calls.ts";
import { soundOnes, verifiedInTurns, type ForeignChange } from "../rules.ts";
import type { Change, SecretStore, Store } from "../store.ts";
import { valuesIn } from "../values.ts";
import { postgresAuditLinks } from "./audit.ts";
import { CollectionThreads } from "./collect.ts";
import { readBytes, readContent, readContents } from "./content.ts";
import { isOpenToListeners, PostgresDatabase } from "./database.ts";
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
  /** `postgres://user:password@host:port/database`, of the server that takes writes. */
  readonly database: string;
  /** Gets what Postgres and the network say, which errors leave out. */
  readonly log?: Log;
  /** A node with other keys than the nodes before it is refused with `config_invalid`. */
  readonly keyProofs?: KeyProofs | undefined;
  /** The keys of a command do not count for nodes. Default false. */
  readonly isCommand?: boolean;
  /** How long a statement may take, or wait for others, before it fails with `store_failed`. Default 30,000. */
  readonly statementMs?: number;
}

/**
 * The store of many machines: a Postgres database, which all nodes have open. Each part keeps its own tables; this file
 * puts them together. Makes the tables where there are none. Rejects with `store_failed`.
 */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<Store & SecretStore> {
  const { database: url, log, keyProofs, isCommand, statementMs } = options;
  const database = new PostgresDatabase(url, log, statementMs);
  // Whatever others do, a node hears of changes and gives its signs of life, and strangers with made-up tokens keep nobody waiting.
  const ofNode = new PostgresDatabase(url, log, statementMs, 2);
  const ofTokens = new PostgresDatabase(url, log, statementMs, 2);
  const ofFeed = new PostgresDatabase(url, log, statementMs, 1);
  const feed = new Feed(ofFeed, url, log);
  for (const each of [database, ofNode, ofTokens]) each.isAway = () => feed.isAway;
  feed.onSilent = () => [database, ofNode, ofTokens, ofFeed].forEach((each) => each.dropWaiting());
  const close = async (): Promise<void> => {
    await feed.close();
    await Promise.all([database, ofNode, ofTokens, ofFeed].map((each) => each.close()));
  };
  try {
    await upgradeDatabase(database, log);
    if (isOpenToListeners(url))
      log?.warn(
        "the connection to the database is not encrypted; docs/postgres.md says how BERTH_DATABASE asks for TLS",
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
    tokens: postgresTokens(database, ofTokens.run, feed),
    values: valuesIn(serverData),
    retainedCalls: retainedCallsIn(serverData),
    nodes: postgresNodes(ofNode, feed),
    audit: postgresAuditLinks(database),
    ...postgresSecrets(database, feed),

    now: () => feed.now(),

    async content(tenant, cid) {
      const bytes = isCid(cid) ? await readContent(database.run, tenant, cid) : undefined;
      return bytes && verifiedInTurns(cid, bytes);
    },

    async contents(tenant, cids) {
      const found = await readContents(database.run, tenant, cids.filter(isCid));
      return soundOnes(found);
    },

    name: names.get,
    names: names.list,
    meanings: names.meanings,
    changesAfter: names.changesAfter,
    latestChange: names.latest,
    history: names.history,
    had: names.had,

    async change(tenant, change) {
      for (const { cid, bytes } of change.put ?? []) await verifiedInTurns(cid, bytes);
      for (const { block } of change.derived ?? []) await verifiedInTurns(block.cid, block.bytes);
      return feed.telling(namesOf(tenant, change), () =>
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

    onReplaced: (listener) => feed.listenToReplacing(listener),
    unheardMs: () => feed.unheardMs(),

    async derived(key) {
      const found = await readBytes(database.run, "derived JOIN content ON id = content_id WHERE key = $2", [key]);
      return found && verifiedInTurns(found.cid, found.bytes);
    },

    async putDerived(tenant, entries) {
      for (const { block } of entries) await verifiedInTurns(block.cid, block.bytes);
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
          await names.change(run, NOBODY, { by: "check", put: [block], set });
          await run("ROLLBACK TO SAVEPOINT trial");
          await records.writeNothing(run);
        });
      } catch (error) {
        // If another node is writing, writing works.
        if (((error as BerthError).cause as { code?: unknown } | undefined)?.code !== LOCK_TIMEOUT) throw error;
      }
    },

    async size() {
      const [found] = await database.run<{ bytes: number }>("SELECT pg_database_size(current_database()) AS bytes");
      return found!.bytes;
    },

    use: (tenant) => runSteps(database.run, storedBytes.of(tenant)),

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

/** No tenant can have this name. */
const NOBODY = "~check";
const LOCK_TIMEOUT = "55P03";

function namesOf(tenant: string, { set = [] }: Change): ForeignChange[] {
  return set.map(({ kind, name }) => ({ tenant, kind, name }));
}
