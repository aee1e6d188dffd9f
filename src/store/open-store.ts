import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Log } from "../lib/log.ts";
import { copyRows, type CopiedStore, type CopySettings } from "./copy.ts";
import { checkDatabase } from "./postgres/backup.ts";
import { intoPostgres, postgresSource } from "./postgres/copy.ts";
import type { KeyProofs } from "./postgres/key-proofs.ts";
import { openPostgresStore } from "./postgres/postgres-store.ts";
import { hasTables } from "./postgres/upgrade.ts";
import { backupStore, restoreStore } from "./sqlite/backup.ts";
import { intoSqlite, sqliteSource } from "./sqlite/copy.ts";
import { DATABASE_FILE } from "./sqlite/open-database.ts";
import { openSqliteStore } from "./sqlite/sqlite-store.ts";
import { foreignLog } from "./sqlite/store-files.ts";
import type { SecretStore, Store } from "./store.ts";

/** The only place outside of `sqlite/` and `postgres/` that names an implementation of the store. */
export interface StoreOptions {
  readonly dataDir: string;
  /** The Postgres that has the store, as a connection URI; without it, SQLite in the data folder has it. */
  readonly database?: string | undefined;
  readonly log?: Log;
  /** Opening rejects with `config_invalid` where the nodes of the database have other keys. */
  readonly keyProofs?: KeyProofs | undefined;
  /** The keys of a command do not count for nodes. */
  readonly isCommand?: boolean;
}

/** Makes a new store where there is none. Rejects with `store_failed`. */
export function openStore({ database, ...options }: StoreOptions): Promise<Store & SecretStore> {
  return database === undefined ? openSqliteStore(options) : openPostgresStore({ ...options, database });
}

/**
 * Copies all that one store keeps into another place, where none may be: from SQLite to Postgres, and back. Rejects with
 * `backup_failed`, and changes nothing.
 */
export async function copyStore(from: StoreOptions, to: StoreOptions, settings: CopySettings): Promise<CopiedStore> {
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
  if (database !== undefined) return hasTables(database);
  const file = join(dataDir, DATABASE_FILE);
  return existsSync(file) || foreignLog(file) !== undefined;
}

export { backupStore, checkDatabase, restoreStore, type CopiedStore, type KeyProofs };
