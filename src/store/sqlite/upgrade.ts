import type Database from "#better-sqlite3";
import { BerthError } from "../../lib/errors.ts";
import type { Log } from "../../lib/log.ts";
import { hasOtherSchema, OTHER_SCHEMA, schemaVersion, appliedSteps } from "../schema-version.ts";
import { migrations } from "./migrations.ts";

/** How long a process waits for another one that upgrades the same database. A large one takes minutes. */
const OTHERS_UPGRADE_MS = 600_000;

export const SCHEMA_VERSION = schemaVersion(migrations);

/** Applies missing migrations. Throws `store_failed` for a database of a newer Berth or with another schema. */
export function upgradeDatabase(database: Database.Database, log?: Log, steps = migrations): void {
  const from = readVersion(database);
  const to = schemaVersion(steps);
  if (from === to) return;
  const upgrade = database.transaction(() => {
    // Read again under the lock, as another process may have upgraded it.
    const version = readVersion(database);
    rejectUnusableVersion(version, steps);
    const missing = steps.slice(appliedSteps(version));
    // Logged beforehand, because a large store takes long: an index of a million audit records takes seconds.
    if (version > 0 && missing.length > 0)
      log?.info({ from: appliedSteps(from), to: steps.length }, "upgrading the store to this version of Berth");
    for (const sql of missing) database.exec(sql);
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
export function rejectUnusableVersion(version: number, steps = migrations): void {
  const problem = version === 0 ? undefined : versionProblem(version, steps);
  if (problem === undefined) return;
  const fix = `start the Berth that created it, or restore a backup of this version with "berth restore FILE"`;
  throw new BerthError("store_failed", `the database ${problem}; ${fix}`);
}

export function versionProblem(version: number, steps = migrations): string | undefined {
  if (hasOtherSchema(version, steps)) return OTHER_SCHEMA;
  const stepCount = appliedSteps(version);
  if (stepCount <= steps.length) return undefined;
  return `has schema ${stepCount} of a newer Berth, but this Berth needs ${steps.length}`;
}

/** 0 for an empty database. */
export function readVersion(database: Database.Database): number {
  return database.pragma("user_version", { simple: true }) as number;
}
