import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Log } from "../lib/log.ts";
import { copyRows, type CopiedStore, type CopySettings } from "./copy.ts";
import type { DatabaseState } from "./postgres/backup.ts";
import type { KeyProofs } from "./postgres/key-proofs.ts";
import { backupStore, restoreStore } from "./sqlite/backup.ts";
import { createInSqlite, sqliteSource } from "./sqlite/copy.ts";
import { DATABASE_FILE } from "./sqlite/open-database.ts";
import { openSqliteStore } from "./sqlite/sqlite-store.ts";
import { foreignLog } from "./sqlite/store-files.ts";
import { openThreadedStore } from "./sqlite/threaded-store.ts";
import type { SecretStore, Store } from "./store.ts";

/**
 * The only file outside of `sqlite/` and `postgres/` that names an implementation of the store. The one for Postgres is
 * loaded on demand, because its client would slow down every start.
 */
export interface StoreOptions {
  readonly dataDir: string;
  /** Connection URI of the Postgres database that contains the store. Without it, SQLite in the data folder is used. */
  readonly database?: string | undefined;
  readonly log?: Log;
  /** Opening rejects with `config_invalid` if the nodes of the database have other keys. */
  readonly keyProofs?: KeyProofs | undefined;
  /** A command waits for its store, so it does not need a thread for it. Its keys do not count as those of a node. */
  readonly isCommand?: boolean;
}

/** Creates a new store if there is none. Rejects with `store_failed`. */
export async function openStore({ database, ...options }: StoreOptions): Promise<Store & SecretStore> {
  if (database === undefined) return options.isCommand ? openSqliteStore(options) : openThreadedStore(options);
  const { openPostgresStore } = await import("./postgres/postgres-store.ts");
  return openPostgresStore({ ...options, database });
}

/**
 * Copies everything in a store to a place without one: from SQLite to Postgres, or back. Rejects with `backup_failed`,
 * and then changes nothing.
 */
export async function copyStore(from: StoreOptions, to: StoreOptions, settings: CopySettings): Promise<CopiedStore> {
  const { createInPostgres: intoPostgres, postgresSource } = await import("./postgres/copy.ts");
  const into = to.database === undefined ? createInSqlite(to.dataDir) : intoPostgres(to.database, to.log);
  const source =
    from.database === undefined ? sqliteSource(from.dataDir, from.log) : await postgresSource(from.database, from.log);
  try {
    return await copyRows(source, into, settings);
  } finally {
    await source.close();
  }
}

/**
 * False if opening would create a new store. Also true for the remains of a store, which opening rejects with advice.
 */
export async function hasStore({ dataDir, database }: StoreOptions): Promise<boolean> {
  if (database !== undefined) return (await import("./postgres/upgrade.ts")).hasTables(database);
  const file = join(dataDir, DATABASE_FILE);
  return existsSync(file) || foreignLog(file) !== undefined;
}

/** Reads every content of a store in Postgres. */
export async function checkDatabase(url: string): Promise<DatabaseState> {
  return (await import("./postgres/backup.ts")).checkDatabase(url);
}

export { backupStore, restoreStore, type CopiedStore, type KeyProofs };
