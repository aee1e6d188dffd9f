import type Database from "#better-sqlite3";
import { BerthError } from "../../lib/errors.ts";
import type { Log } from "../../lib/log.ts";
import { hasOtherSchema, OTHER_SCHEMA, schemaVersion, stepsTaken } from "../schema-version.ts";
import { migrations } from "./migrations.ts";

/** How long a process waits for another one that upgrades the same database: a large one takes minutes. */
const OTHERS_UPGRADE_MS = 600_000;

export const SCHEMA_VERSION = schemaVersion(migrations);

/**
 * Applies the migrations that a database lacks. Throws `store_failed` for a database of a newer Berth or with
 * another schema.
 */
export function upgradeDatabase(database: Database.Database, log?: Log, steps = migrations): void {
  const from = versionOf(database);
  const to = schemaVersion(steps);
  if (from === to) return;
  const upgrade = database.transaction(() => {
    // Read again under the lock: another process may have been first.
    const version = versionOf(database);
    refuseOther(version, steps);
    const lacking = steps.slice(stepsTaken(version));
    // Logged beforehand, because a large store takes long: an index of a million audit records takes seconds.
    if (version > 0 && lacking.length > 0)
      log?.info({ from: stepsTaken(from), to: steps.length }, "the store is upgraded to this version of Berth, once");
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
export function refuseOther(version: number, steps = migrations): void {
  const problem = version === 0 ? undefined : versionProblem(version, steps);
  if (problem === undefined) return;
  const remedy = `start the Berth that wrote it, or restore a backup of this version with "berth restore FILE"`;
  throw new BerthError("store_failed", `the database ${problem}; ${remedy}`);
}

export function versionProblem(version: number, steps = migrations): string | undefined {
  if (hasOtherSchema(version, steps)) return OTHER_SCHEMA;
  const taken = stepsTaken(version);
  if (taken <= steps.length) return undefined;
  return `has schema ${taken}, which a newer Berth wrote, and this Berth needs ${steps.length}`;
}

/** 0 for an empty database. */
export function versionOf(database: Database.Database): number {
  return database.pragma("user_version", { simple: true }) as number;
}
