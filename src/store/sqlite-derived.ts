import type Database from "better-sqlite3";
import type { Block, Cid } from "../cid.ts";
import type { SqliteContent } from "./sqlite-content.ts";

/** The part of the SQLite store that keeps derived results, and who holds them. Each function is one transaction. */
export function sqliteDerived(database: Database.Database, contents: SqliteContent) {
  const get = database.prepare<[string], { cid: Cid; bytes: Uint8Array }>(
    "SELECT cid, bytes FROM derived JOIN content ON id = content_id WHERE key = ?",
  );
  const add = database.prepare<[string, number]>("INSERT OR IGNORE INTO derived (key, content_id) VALUES (?, ?)");
  const isThere = database.prepare<[string], number>("SELECT 1 FROM derived WHERE key = ?").pluck();
  const isHeld = database
    .prepare<[string, string], number>("SELECT 1 FROM tenant_derived WHERE tenant = ? AND key = ?")
    .pluck();
  const claim = database.prepare<[string, string]>("INSERT OR IGNORE INTO tenant_derived (tenant, key) VALUES (?, ?)");

  const put = database.transaction((tenant: string, entries: readonly { key: string; block: Block }[]) => {
    for (const { key, block } of entries) {
      add.run(key, contents.idOf(block));
      claim.run(tenant, key);
    }
  });

  const hold = database.transaction((tenant: string, keys: readonly string[]) => {
    if (!keys.every((key) => isThere.get(key))) return false;
    for (const key of keys) claim.run(tenant, key);
    return true;
  });

  return {
    get: (key: string) => get.get(key),
    put: (tenant: string, entries: readonly { key: string; block: Block }[]) => put.immediate(tenant, entries),
    /** What is held is there. */
    isHeld: (tenant: string, keys: readonly string[]) => keys.every((key) => isHeld.get(tenant, key)),
    hold: (tenant: string, keys: readonly string[]) => hold.immediate(tenant, keys),
  };
}
