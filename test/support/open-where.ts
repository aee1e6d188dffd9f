import { openPostgresStore } from "../../src/store/postgres/postgres-store.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import type { SecretStore, Store } from "../../src/store/store.ts";

/** Opens the store in a folder, or in a database by its address. It waits for others as long as a busy machine may take. */
export function openWhere(where: string): Promise<Store & SecretStore> {
  if (where.startsWith("postgres://")) return openPostgresStore({ database: where });
  return openSqliteStore({ dataDir: where, busyMs: 60_000 });
}
