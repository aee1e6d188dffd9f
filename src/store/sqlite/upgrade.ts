import type Database from "#better-sqlite3";
import { BerthError } from "../../lib/errors.ts";
import type { Log } from "../../lib/log.ts";
import { migrations, UNRELEASED } from "./migrations.ts";

/** How long a process waits for another one that upgrades the same database: a large one takes minutes. */
const OTHERS_UPGRADE_MS = 600_000;

export const SCHEMA_VERSION = UNRELEASED + migrations.length;

/**
 * Applies the migrations that a database lacks. Throws `store_failed` for a database of a newer Berth or of a
 * development version.
 */
export function upgradeDatabase(database: Database.Database, log?: Log, steps = migrations): void {
  const from = versionOf(database);
  const to = UNRELEASED + steps.length;
  if (from === to) return;
  const upgrade = database.transaction(() => {
    // Read again under the lock: another process may have been first.
    const version = versionOf(database);
    refuseOther(version, to);
    const lacking = version === 0 ? steps : steps.slice(version - UNRELEASED);
    // Logged beforehand, because a large store takes long: an index of a million audit records takes seconds.
    if (version > 0 && lacking.length > 0)
      log?.info({ from, to }, "the store is upgraded to this version of Berth, once");
    for (const sql of lacking) database.exec(sql);
    database.pragma(`user_version = ${to}`);
  });
  for (const until = performance.now() + OTHERS_UPGRADE_MS; ;) {
    try {
      return upgrade.immediate();
    } catch (error) {
      if ((error as { code?: string }).code !== "SQLITE_BUSY" || performance.now() > until) throw error;
    }
  }
}

/** Throws `store_failed` for a version that this Berth can neither use nor upgrade. */
export function refuseOther(version: number, own = SCHEMA_VERSION): void {
  const problem = version === 0 ? undefined : versionProblem(version, own);
  if (problem === undefined) return;
  const remedy = `start the Berth that wrote it, or restore a backup of this version with "berth restore FILE"`;
  throw new BerthError("store_failed", `the database ${problem}; ${remedy}`);
}

export function versionProblem(version: number, own = SCHEMA_VERSION): string | undefined {
  if (version > UNRELEASED && version <= own) return undefined;
  const writer = version > own ? "a newer Berth" : "an unreleased development version of Berth";
  return `has version ${version}, which ${writer} wrote, and this Berth needs version ${own}`;
}

/** 0 for an empty database. */
export function versionOf(database: Database.Database): number {
  return database.pragma("user_version", { simple: true }) as number;
}
