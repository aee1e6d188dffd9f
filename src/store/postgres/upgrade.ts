import { BerthError } from "../../lib/errors.ts";
import type { Log } from "../../lib/log.ts";
import { hasOtherSchema, OTHER_SCHEMA, schemaVersion, appliedSteps } from "../schema-version.ts";
import { lock, PostgresDatabase, type RunSql } from "./database.ts";
import { migrations, MIN_READER } from "./migrations.ts";

/** The migrations of a version, and how many of them another version must know to work with its tables. */
interface Steps {
  readonly migrations: readonly string[];
  readonly minReader: number;
}

const currentSteps: Steps = { migrations, minReader: MIN_READER };

/**
 * Applies missing migrations while other processes wait. Rejects with `store_failed` for a database whose newest
 * migrations this version cannot work with, and for one with another schema.
 */
export async function upgradeDatabase(
  database: PostgresDatabase,
  log?: Log,
  steps: Steps = currentSteps,
): Promise<void> {
  if ((await readVersion(database.run)) === schemaVersion(steps.migrations)) return;
  await database.transaction(
    async (run) => {
      await lock(run, "upgrade", "");
      await upgradeWithin(run, log, steps);
    },
    { isLong: true },
  );
}

/** The same in a transaction that has locked the upgrade. */
export async function upgradeWithin(
  run: RunSql,
  log?: Log,
  { migrations, minReader }: Steps = currentSteps,
): Promise<void> {
  await run(
    `CREATE TABLE IF NOT EXISTS berth_schema (
     -- The version of the tables (schema-version.ts), and the number of steps that a Berth must know to work with them.
     version bigint NOT NULL, min_reader bigint NOT NULL)`,
  );
  const [stored] = await run<Version>('SELECT version, min_reader AS "minReader" FROM berth_schema');
  const storedVersion = stored?.version ?? 0;
  if (storedVersion === 0) await checkEncoding(run);
  if (stored) rejectIncompatible(stored, migrations);
  const missing = migrations.slice(appliedSteps(storedVersion));
  if (storedVersion > 0 && missing.length > 0)
    log?.info(
      { from: appliedSteps(storedVersion), to: migrations.length },
      "upgrading the database to this version of Berth",
    );
  for (const sql of missing) await run(sql);
  if (!stored) await run("INSERT INTO berth_schema VALUES ($1, $2)", [schemaVersion(migrations), minReader]);
  else if (missing.length > 0)
    await run("UPDATE berth_schema SET version = $1, min_reader = $2", [schemaVersion(migrations), minReader]);
}

/** Other encodings cannot store every text. */
async function checkEncoding(run: RunSql): Promise<void> {
  const [setting] = await run<{ encoding: string }>("SELECT current_setting('server_encoding') AS encoding");
  if (setting!.encoding === "UTF8") return;
  const fix = "create it with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0";
  throw new BerthError("store_failed", `the encoding of the database is ${setting!.encoding} instead of UTF8; ${fix}`);
}

/** False for a database that no Berth was ever started with. */
export async function hasTables(url: string): Promise<boolean> {
  const database = new PostgresDatabase(url);
  try {
    return (await readVersion(database.run)) > 0;
  } finally {
    await database.close();
  }
}

interface Version {
  readonly version: number;
  readonly minReader: number;
}

/** 0 for an empty database. */
export async function readVersion(run: RunSql): Promise<number> {
  const [table] = await run<{ name: string | null }>("SELECT to_regclass('berth_schema')::text AS name");
  if (!table?.name) return 0;
  const [schema] = await run<{ version: number }>("SELECT version FROM berth_schema");
  return schema?.version ?? 0;
}

function rejectIncompatible({ version, minReader }: Version, known: readonly string[]): void {
  if (hasOtherSchema(version, known)) {
    throw new BerthError("store_failed", `the database ${OTHER_SCHEMA}; use an empty database for this version`);
  }
  if (minReader <= known.length) return;
  const detail = `the database requires schema ${minReader}, but this Berth knows only ${known.length}`;
  throw new BerthError("store_failed", `${detail}; start the newer Berth that created it`);
}
