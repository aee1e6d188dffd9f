import { BerthError } from "../../lib/errors.ts";
import type { Log } from "../../lib/log.ts";
import {
  BEGUN_TABLES,
  BYTES_AT_ONCE,
  columnsOf,
  copiedTables,
  countOf,
  MARKS,
  orderOf,
  ROWS_AT_ONCE,
  selectOf,
  type CopiedRow,
  type CopiedTable,
  type CopySource,
  type CopyTarget,
  type IntoStore,
} from "../copied.ts";
import { stepsTaken } from "../schema-version.ts";
import { postgresAuditLinks } from "./audit.ts";
import { lock, partsOf, PostgresDatabase, type RunSql, type Snapshot } from "./database.ts";
import { migrations } from "./migrations.ts";
import { upgradeDatabase, upgradeWithin, versionOf } from "./upgrade.ts";

/** Reads a database as it stands now. Brings its tables to this version before. Rejects with `store_failed`. */
export async function postgresSource(url: string, log?: Log): Promise<CopySource> {
  const database = new PostgresDatabase(url, log);
  let snapshot: Snapshot | undefined;
  try {
    await upgradeDatabase(database, log);
    await refuseLater(database);
    snapshot = await database.snapshot();
    const { run } = snapshot;
    const [marks] = await run(MARKS);
    const [facts] = await run<Pick<CopySource, "latestChange" | "nodes" | "keyIds">>(
      `SELECT latest AS "latestChange", (SELECT count(*) FROM node WHERE expires_at > berth_now()) AS nodes,
         ARRAY (SELECT DISTINCT key_id FROM secret ORDER BY key_id) AS "keyIds" FROM name_change_counter`,
    );
    return {
      ...facts!,
      rows: (table) => rowsOf(run, table),
      count: (table) => count(run, table),
      audit: auditIn(run),
      async isChanged() {
        const [now] = await database.run(MARKS);
        return JSON.stringify(now) !== JSON.stringify(marks);
      },
      async close() {
        await snapshot!.close();
        await database.close();
      },
    };
  } catch (error) {
    await snapshot?.close();
    await database.close();
    throw error;
  }
}

/** Nothing of what a later version has added would be copied. */
async function refuseLater({ run }: PostgresDatabase): Promise<void> {
  const taken = stepsTaken(await versionOf(run));
  if (taken <= migrations.length) return;
  const detail = `the database has schema ${taken} and this Berth knows ${migrations.length}; copy it with the newer Berth`;
  throw new BerthError("backup_failed", detail);
}

/**
 * Writes a store into a database that has none, in one transaction: whoever starts meanwhile waits for its end, and where it
 * does not come to that, nothing was there. Rejects with `backup_failed` where there is something already.
 */
export function intoPostgres(url: string, log?: Log): IntoStore {
  return async (work) => {
    const database = new PostgresDatabase(url, log);
    try {
      return await database.transaction(
        async (run) => {
          await lock(run, "upgrade", "");
          await upgradeWithin(run, log);
          await empty(run);
          const result = await work(targetIn(run));
          for (const { name } of copiedTables) await run(`ANALYZE ${name}`);
          return result;
        },
        { isLong: true, isOnce: true },
      );
    } finally {
      await database.close();
    }
  };
}

/** Keeps others from writing, and takes away what each new store has. */
async function empty(run: RunSql): Promise<void> {
  await run(`LOCK TABLE ${copiedTables.map(({ name }) => name).join(", ")} IN EXCLUSIVE MODE`);
  for (const { name } of copiedTables) {
    if (BEGUN_TABLES.has(name)) continue;
    const [found] = await run(`SELECT 1 FROM ${name} LIMIT 1`);
    if (!found) continue;
    const detail = "the database that BERTH_DATABASE names has a store already; name an empty one (createdb makes it)";
    throw new BerthError("backup_failed", detail);
  }
  for (const name of BEGUN_TABLES) await run(`DELETE FROM ${name}`);
}

function targetIn(run: RunSql): CopyTarget {
  return {
    async write(table, rows) {
      const { name, columns } = table;
      const values = Object.entries(columns).map(([column, type]) => {
        const all = rows.map((row) => row[column]);
        if (type === "text") checkTexts(table, column, rows);
        return all;
      });
      const types = Object.values(columns).map((type, index) => `$${index + 1}::${type}[]`);
      await run(
        `INSERT INTO ${name} (${columnsOf(table)}) OVERRIDING SYSTEM VALUE SELECT * FROM unnest(${types.join(", ")})`,
        values,
      );
    },

    count: (table) => count(run, table),
    audit: auditIn(run),

    async continueAfter(latestChange) {
      await run("UPDATE name_change_counter SET latest = $1", [latestChange]);
      for (const [table, column] of NUMBERED)
        await run(
          `SELECT setval(pg_get_serial_sequence('${table}', '${column}'), max(${column})) FROM ${table}
           HAVING max(${column}) IS NOT NULL`,
        );
      // Those near zero come from SQLite, where each import goes further down.
      await run(
        `SELECT setval('imported_change', max(id)) FROM name_change
         WHERE id BETWEEN $1 AND $1 / 2 HAVING max(id) IS NOT NULL`,
        [FIRST_IMPORTED],
      );
    },
  };
}

const NUMBERED = [
  ["content", "id"],
  ["server_data", "id"],
  ["server_value", "id"],
  ["retained_call", "id"],
  ["audit", "arrival"],
] as const;
/** The first number of `imported_change`. */
const FIRST_IMPORTED = -(2 ** 40);

function checkTexts({ name, key }: CopiedTable, column: string, rows: readonly CopiedRow[]): void {
  const bad = rows.find((row) => typeof row[column] === "string" && row[column].includes("\0"));
  if (!bad) return;
  const which = key.map((each) => JSON.stringify(bad[each])).join(", ");
  const detail = `the column ${column} of the row ${which} of ${name} has the character NUL in it, which Postgres cannot keep`;
  throw new BerthError("backup_failed", detail);
}

async function count(run: RunSql, table: CopiedTable): Promise<number> {
  const [counted] = await run<{ rows: number }>(countOf(table));
  return counted!.rows;
}

/** Rows with long values are taken by so many at a time as their lengths allow, which another cursor tells beforehand. */
async function* rowsOf(run: RunSql, table: CopiedTable): AsyncGenerator<CopiedRow[]> {
  const { name, long } = table;
  const all = `${selectOf(table)} ${orderOf(table)}`;
  if (long === undefined) return yield* partsOf<Record<string, unknown>>(run, `read_${name}`, all, [], ROWS_AT_ONCE);
  await run(`DECLARE long_${name} NO SCROLL CURSOR FOR ${all}`);
  const lengths = `SELECT coalesce(octet_length("${long}"), 0) AS length FROM ${name} ${orderOf(table)}`;
  for await (const some of partsOf<{ length: number }>(run, `lengths_${name}`, lengths, [], ROWS_AT_ONCE))
    for (const together of runsOf(some.map(({ length }) => length)))
      yield await run<Record<string, unknown>>(`FETCH ${together} FROM long_${name}`);
  await run(`CLOSE long_${name}`);
}

/** How many of the next rows are read together, until there are no more. */
function* runsOf(lengths: readonly number[]): Generator<number> {
  let [rows, bytes] = [0, 0];
  for (const length of lengths) {
    if (rows > 0 && bytes + length > BYTES_AT_ONCE) {
      yield rows;
      [rows, bytes] = [0, 0];
    }
    rows += 1;
    bytes += length;
  }
  if (rows > 0) yield rows;
}

/** The audit log as one transaction sees it. */
function auditIn(run: RunSql) {
  let cursors = 0;
  return postgresAuditLinks({
    run,
    transaction: (work) => work(run),
    snapshot: async () => ({
      parts: (sql, values, atOnce) => partsOf(run, `log${++cursors}`, sql, values, atOnce),
      close: async () => {},
    }),
  });
}
