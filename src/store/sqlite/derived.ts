import type Database from "#better-sqlite3";
import type { Cid } from "../../lib/cid.ts";
import type { DerivedEntry } from "../store.ts";
import type { SqliteContent } from "./content.ts";
import type { StoredBytes } from "./stored-bytes.ts";

/** Derived results in SQLite, and the claims of tenants on them. Each function is a transaction. */
export function sqliteDerived(
  database: Database.Database,
  contents: SqliteContent,
  storedBytes: Pick<StoredBytes, "added">,
) {
  const get = database.prepare<[string], { cid: Cid; bytes: Uint8Array }>(
    "SELECT cid, bytes FROM derived JOIN content ON id = content_id WHERE key = ?",
  );
  const add = database.prepare<[string, number]>("INSERT OR IGNORE INTO derived (key, content_id) VALUES (?, ?)");
  const addSource = database.prepare<[string, string]>("INSERT OR IGNORE INTO derived_source (key, cid) VALUES (?, ?)");
  const exists = database.prepare<[string], number>("SELECT 1 FROM derived WHERE key = ?").pluck();
  const isClaimed = database
    .prepare<[string, string], number>("SELECT 1 FROM tenant_derived WHERE tenant = ? AND key = ?")
    .pluck();
  const claim = database.prepare<[string, string]>("INSERT OR IGNORE INTO tenant_derived (tenant, key) VALUES (?, ?)");

  const length = database
    .prepare<[string], number>("SELECT LENGTH(bytes) FROM derived JOIN content ON id = content_id WHERE key = ?")
    .pluck();

  /** Returns the number of newly claimed bytes. */
  const putAll = (tenant: string, entries: readonly DerivedEntry[]): number => {
    let added = 0;
    for (const { key, block, madeOf } of entries) {
      add.run(key, contents.idOf(block));
      if (madeOf !== undefined) addSource.run(key, madeOf);
      if (claim.run(tenant, key).changes > 0) added += length.get(key)!;
    }
    return added;
  };
  const put = database.transaction(putAll);

  const hold = database.transaction((tenant: string, keys: readonly string[]): number | undefined => {
    if (!keys.every((key) => exists.get(key))) return undefined;
    const claimed = keys.filter((key) => claim.run(tenant, key).changes > 0);
    return claimed.reduce((sum, key) => sum + length.get(key)!, 0);
  });

  return {
    get: (key: string) => get.get(key),
    /** Part of a transaction, whose owner counts the returned bytes. */
    putAll,
    put(tenant: string, entries: readonly DerivedEntry[]): void {
      storedBytes.added(tenant, put.immediate(tenant, entries));
    },
    /** Claimed results always exist. */
    isHeld: (tenant: string, keys: readonly string[]) => keys.every((key) => isClaimed.get(tenant, key)),
    hold(tenant: string, keys: readonly string[]): boolean {
      const added = hold.immediate(tenant, keys);
      if (added !== undefined) storedBytes.added(tenant, added);
      return added !== undefined;
    },
  };
}

export type SqliteDerived = ReturnType<typeof sqliteDerived>;
