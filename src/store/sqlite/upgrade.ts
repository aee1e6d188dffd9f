import type Database from "#better-sqlite3";
import { BerthError } from "../../lib/errors.ts";
import type { Log } from "../../lib/log.ts";
import { migrations } from "./migrations.ts";

/** How long a process waits for another one that upgrades the same database: a large one takes minutes. */
const OTHERS_UPGRADE_MS = 600_000;

/** Applies the migrations that a database lacks. Throws `store_failed` for a database of a newer Berth. */
export function upgradeDatabase(database: Database.Database, log?: Log): void {
  const from = taken(database);
  const to = migrations.length;
  if (from === to) return;
  const upgrade = database.transaction(() => {
    refuseNewer(database);
    // Looked at again now that the lock is held: another process may have been first.
    const lacking = migrations.slice(taken(database));
    // Said beforehand, since a large store takes a while: an index of a million audit records takes seconds.
    if (from > 0 && lacking.length > 0) log?.info({ from, to }, "the store is upgraded to this version of Berth, once");
    for (const sql of lacking) database.exec(sql);
    database.pragma(`user_version = ${migrations.length}`);
  });
  for (const until = performance.now() + OTHERS_UPGRADE_MS; ;) {
    try {
      return upgrade.immediate();
    } catch (error) {
      if ((error as { code?: string }).code !== "SQLITE_BUSY" || performance.now() > until) throw error;
    }
  }
}

export function refuseNewer(database: Database.Database): void {
  const version = taken(database);
  if (version <= migrations.length) return;
  throw new BerthError(
    "store_failed",
    `the database is at version ${version} and this Berth knows ${migrations.length}; start the newer Berth that wrote it, or restore a backup from before the upgrade with "berth restore FILE"`,
  );
}

function taken(database: Database.Database): number {
  return database.pragma("user_version", { simple: true }) as number;
}
