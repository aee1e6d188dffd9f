import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Log } from "../lib/log.ts";
import { copyRows, type CopiedStore, type CopySettings } from "./copy.ts";
import type { DatabaseState } from "./postgres/backup.ts";
import type { KeyProofs } from "./postgres/key-proofs.ts";
import { backupStore, restoreStore } from "./sqlite/backup.ts";
import { intoSqlite, sqliteSource } from "./sqlite/copy.ts";
import { DATABASE_FILE } from "./sqlite/open-database.ts";
import { openSqliteStore } from "./sqlite/sqlite-store.ts";
import { foreignLog } from "./sqlite/store-files.ts";
import { openThreadedStore } from "./sqlite/threaded-store.ts";
import type { SecretStore, Store } from "./store.ts";

/**
 * The only place outside of `sqlite/` and `postgres/` that names an implementation of the store. That of Postgres is
 * loaded where a database is named: every start would be slower with its client.
 */
export interface StoreOptions {
  readonly dataDir: string;
  /** The Postgres that has the store, as a connection URI; without it, SQLite in the data folder has it. */
  readonly database?: string | undefined;
  readonly log?: Log;
  /** Opening rejects with `config_invalid` where the nodes of the database have other keys. */
  readonly keyProofs?: KeyProofs | undefined;
  /** A command waits for its store anyway, so it needs no thread for it. Its keys do not count for nodes. */
  readonly isCommand?: boolean;
}

/** Makes a new store where there is none. Rejects with `store_failed`. */
export async function openStore({ database, ...options }: StoreOptions): Promise<Store & SecretStore> {
  if (database === undefined) return options.isCommand ? openSqliteStore(options) : openThreadedStore(options);
  const { openPostgresStore } = await import("./postgres/postgres-store.ts");
  return openPostgresStore({ ...options, database });
}

/**
 * Copies all that one store keeps into another place, where none may be: from SQLite to Postgres, and back. Rejects with
 * `backup_failed`, and changes nothing.
 */
export async function copyStore(from: StoreOptions, to: StoreOptions, settings: CopySettings): Promise<CopiedStore> {
  const { intoPostgres, postgresSource } = await import("./postgres/copy.ts");
  const into = to.database === undefined ? intoSqlite(to.dataDir) : intoPostgres(to.database, to.log);
  const source =
    from.database === undefined ? sqliteSource(from.dataDir, from.log) : await postgresSource(from.database, from.log);
  try {
    return await copyRows(source, into, settings);
  } finally {
    await source.close();
  }
}

/** False where opening makes a new store. True for the remains of one, too, which opening refuses with advice. */
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
