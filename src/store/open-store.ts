import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Log } from "../lib/log.ts";
import { backupStore, restoreStore } from "./sqlite/backup.ts";
import { DATABASE_FILE } from "./sqlite/open-database.ts";
import { openSqliteStore } from "./sqlite/sqlite-store.ts";
import { foreignLog } from "./sqlite/store-files.ts";
import type { SecretStore, Store } from "./store.ts";

/**
 * The only place outside of `sqlite/` that names an implementation of the store. There is one, a SQLite database in the
 * data folder; with another, the options name which.
 */
export interface StoreOptions {
  readonly dataDir: string;
  readonly log?: Log;
}

/** Makes a new store where there is none. Rejects with `store_failed`. */
export function openStore(options: StoreOptions): Promise<Store & SecretStore> {
  return openSqliteStore(options);
}

/** False where opening makes a new store. True for the remains of one, too, which opening refuses with advice. */
export function hasStore({ dataDir }: StoreOptions): boolean {
  const file = join(dataDir, DATABASE_FILE);
  return existsSync(file) || foreignLog(file) !== undefined;
}

export { backupStore, restoreStore };
