import { BerthError } from "../../lib/errors.ts";
import type { Log } from "../../lib/log.ts";
import { hasOtherSchema, OTHER_SCHEMA, schemaVersion, stepsTaken } from "../schema-version.ts";
import { lock, PostgresDatabase, type RunSql } from "./database.ts";
import { migrations, MIN_READER } from "./migrations.ts";

/** The steps of a version, and the number of them that another version must know to work with the tables of these. */
interface Steps {
  readonly migrations: readonly string[];
  readonly minReader: number;
}

const own: Steps = { migrations, minReader: MIN_READER };

/**
 * Applies the migrations that a database lacks, while other processes that want the same wait. Rejects with `store_failed`
 * for a database whose newest steps this version cannot work with, and for one with another schema.
 */
export async function upgradeDatabase(database: PostgresDatabase, log?: Log, steps: Steps = own): Promise<void> {
  if ((await versionOf(database.run)) === schemaVersion(steps.migrations)) return;
  await database.transaction(
    async (run) => {
      await lock(run, "upgrade", "");
      await upgradeWithin(run, log, steps);
    },
    { isLong: true },
  );
}

/** As `upgradeDatabase`, in a transaction that has locked the upgrade. */
export async function upgradeWithin(run: RunSql, log?: Log, { migrations, minReader }: Steps = own): Promise<void> {
  await run(
    `CREATE TABLE IF NOT EXISTS berth_schema (
     -- The version of the tables (schema-version.ts), and the number of steps that a Berth must know to work with them.
     version bigint NOT NULL, min_reader bigint NOT NULL)`,
  );
  const [taken] = await run<Version>('SELECT version, min_reader AS "minReader" FROM berth_schema');
  const from = taken?.version ?? 0;
  if (from === 0) await checkEncoding(run);
  if (taken) refuseOther(taken, migrations);
  const lacking = migrations.slice(stepsTaken(from));
  if (from > 0 && lacking.length > 0)
    log?.info(
      { from: stepsTaken(from), to: migrations.length },
      "the database is upgraded to this version of Berth, once",
    );
  for (const sql of lacking) await run(sql);
  if (!taken) await run("INSERT INTO berth_schema VALUES ($1, $2)", [schemaVersion(migrations), minReader]);
  else if (lacking.length > 0)
    await run("UPDATE berth_schema SET version = $1, min_reader = $2", [schemaVersion(migrations), minReader]);
}

/** Any other cannot keep every text. */
async function checkEncoding(run: RunSql): Promise<void> {
  const [found] = await run<{ encoding: string }>("SELECT current_setting('server_encoding') AS encoding");
  if (found!.encoding === "UTF8") return;
  const remedy = "make it with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0";
  throw new BerthError(
    "store_failed",
    `the database has the encoding ${found!.encoding}, and must have UTF8; ${remedy}`,
  );
}

/** False for a database that no Berth has been started with. */
export async function hasTables(url: string): Promise<boolean> {
  const database = new PostgresDatabase(url);
  try {
    return (await versionOf(database.run)) > 0;
  } finally {
    await database.close();
  }
}

interface Version {
  readonly version: number;
  readonly minReader: number;
}

/** 0 for an empty database. */
export async function versionOf(run: RunSql): Promise<number> {
  const [table] = await run<{ name: string | null }>("SELECT to_regclass('berth_schema')::text AS name");
  if (!table?.name) return 0;
  const [found] = await run<{ version: number }>("SELECT version FROM berth_schema");
  return found?.version ?? 0;
}

function refuseOther({ version, minReader }: Version, known: readonly string[]): void {
  if (hasOtherSchema(version, known)) {
    throw new BerthError("store_failed", `the database ${OTHER_SCHEMA}; create an empty database for this one`);
  }
  if (minReader <= known.length) return;
  const detail = `the database is for a Berth that knows schema ${minReader}, and this one knows ${known.length}`;
  throw new BerthError("store_failed", `${detail}; start the newer Berth that wrote it`);
}
