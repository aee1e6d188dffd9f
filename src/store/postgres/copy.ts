import { BerthError } from "../../lib/errors.ts";
import type { Log } from "../../lib/log.ts";
import {
  PREFILLED_TABLES,
  BYTES_AT_ONCE,
  columnList,
  copiedTables,
  countRows,
  CHANGE_MARKERS,
  orderBy,
  ROWS_AT_ONCE,
  selectRows,
  type CopiedRow,
  type CopiedTable,
  type CopySource,
  type CopyTarget,
  type StoreCreator,
} from "../copied.ts";
import { appliedSteps } from "../schema-version.ts";
import { postgresAuditLinks } from "./audit.ts";
import { lock, readInBatches, PostgresDatabase, type RunSql, type Snapshot } from "./database.ts";
import { migrations } from "./migrations.ts";
import { upgradeDatabase, upgradeWithin, readVersion } from "./upgrade.ts";

/** Reads a database in its current state, after upgrading its schema. Rejects with `store_failed`. */
export async function postgresSource(url: string, log?: Log): Promise<CopySource> {
  const database = new PostgresDatabase(url, log);
  let snapshot: Snapshot | undefined;
  try {
    await upgradeDatabase(database, log);
    await rejectNewerSchema(database);
    snapshot = await database.snapshot();
    const { run } = snapshot;
    const [marks] = await run(CHANGE_MARKERS);
    const [facts] = await run<Pick<CopySource, "latestChange" | "nodes" | "keyIds">>(
      `SELECT latest AS "latestChange", (SELECT count(*) FROM node WHERE expires_at > berth_now()) AS nodes,
         ARRAY (SELECT DISTINCT key_id FROM secret ORDER BY key_id) AS "keyIds" FROM name_change_counter`,
    );
    return {
      ...facts!,
      rows: (table) => readRows(run, table),
      count: (table) => count(run, table),
      audit: auditWithin(run),
      async isChanged() {
        const [now] = await database.run(CHANGE_MARKERS);
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

/** A copy would lose what a later version has added. */
async function rejectNewerSchema({ run }: PostgresDatabase): Promise<void> {
  const stepCount = appliedSteps(await readVersion(run));
  if (stepCount <= migrations.length) return;
  const detail = `the database has schema ${stepCount}, newer than this Berth's ${migrations.length}; copy it with the newer Berth`;
  throw new BerthError("backup_failed", detail);
}

/**
 * Writes a store into a database without one, in a single transaction: nodes that start meanwhile wait for its end, and
 * on failure nothing remains. Rejects with `backup_failed` if there is a store already.
 */
export function createInPostgres(url: string, log?: Log): StoreCreator {
  return async (work) => {
    const database = new PostgresDatabase(url, log);
    try {
      return await database.transaction(
        async (run) => {
          await lock(run, "upgrade", "");
          await upgradeWithin(run, log);
          await clearTables(run);
          const result = await work(createTarget(run));
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

/** Prevents other processes from writing, and removes the initial rows of a new store. */
async function clearTables(run: RunSql): Promise<void> {
  await run(`LOCK TABLE ${copiedTables.map(({ name }) => name).join(", ")} IN EXCLUSIVE MODE`);
  for (const { name } of copiedTables) {
    if (PREFILLED_TABLES.has(name)) continue;
    const [found] = await run(`SELECT 1 FROM ${name} LIMIT 1`);
    if (!found) continue;
    const detail =
      "the database in BERTH_DATABASE already contains a store; use an empty one (create it with createdb)";
    throw new BerthError("backup_failed", detail);
  }
  for (const name of PREFILLED_TABLES) await run(`DELETE FROM ${name}`);
}

function createTarget(run: RunSql): CopyTarget {
  return {
    async write(table, rows) {
      const { name, columns } = table;
      const values = Object.entries(columns).map(([column, type]) => {
        const columnValues = rows.map((row) => row[column]);
        if (type === "text") checkTexts(table, column, rows);
        return columnValues;
      });
      const types = Object.values(columns).map((type, index) => `$${index + 1}::${type}[]`);
      await run(
        `INSERT INTO ${name} (${columnList(table)}) OVERRIDING SYSTEM VALUE SELECT * FROM unnest(${types.join(", ")})`,
        values,
      );
    },

    count: (table) => count(run, table),
    audit: auditWithin(run),

    async continueAfter(latestChange) {
      await run("UPDATE name_change_counter SET latest = $1", [latestChange]);
      for (const [table, column] of ID_COLUMNS)
        await run(
          `SELECT setval(pg_get_serial_sequence('${table}', '${column}'), max(${column})) FROM ${table}
           HAVING max(${column}) IS NOT NULL`,
        );
      // Imported changes from SQLite are near zero and count down; they stay outside of this sequence.
      await run(
        `SELECT setval('imported_change', max(id)) FROM name_change
         WHERE id BETWEEN $1 AND $1 / 2 HAVING max(id) IS NOT NULL`,
        [FIRST_IMPORTED],
      );
    },
  };
}

const ID_COLUMNS = [
  ["content", "id"],
  ["server_data", "id"],
  ["server_value", "id"],
  ["retained_call", "id"],
  ["audit", "arrival"],
] as const;
/** The first number of the sequence `imported_change`. */
const FIRST_IMPORTED = -(2 ** 40);

function checkTexts({ name, key }: CopiedTable, column: string, rows: readonly CopiedRow[]): void {
  const bad = rows.find((row) => typeof row[column] === "string" && row[column].includes("\0"));
  if (!bad) return;
  const which = key.map((each) => JSON.stringify(bad[each])).join(", ");
  const detail = `the column ${column} of row ${which} in ${name} contains a NUL character, which Postgres cannot store`;
  throw new BerthError("backup_failed", detail);
}

async function count(run: RunSql, table: CopiedTable): Promise<number> {
  const [counted] = await run<{ rows: number }>(countRows(table));
  return counted!.rows;
}

/** Rows with long values are fetched in batches that fit in memory. A second cursor reads their lengths in advance. */
async function* readRows(run: RunSql, table: CopiedTable): AsyncGenerator<CopiedRow[]> {
  const { name, long } = table;
  const query = `${selectRows(table)} ${orderBy(table)}`;
  if (long === undefined)
    return yield* readInBatches<Record<string, unknown>>(run, `read_${name}`, query, [], ROWS_AT_ONCE);
  await run(`DECLARE long_${name} NO SCROLL CURSOR FOR ${query}`);
  const lengths = `SELECT coalesce(octet_length("${long}"), 0) AS length FROM ${name} ${orderBy(table)}`;
  for await (const batch of readInBatches<{ length: number }>(run, `lengths_${name}`, lengths, [], ROWS_AT_ONCE))
    for (const rowCount of batchSizes(batch.map(({ length }) => length)))
      yield await run<Record<string, unknown>>(`FETCH ${rowCount} FROM long_${name}`);
  await run(`CLOSE long_${name}`);
}

/** Yields how many of the next rows are fetched together. */
function* batchSizes(lengths: readonly number[]): Generator<number> {
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

/** The audit log as seen by one transaction. */
function auditWithin(run: RunSql) {
  let cursors = 0;
  return postgresAuditLinks({
    run,
    transaction: (work) => work(run),
    snapshot: async () => ({
      parts: (sql, values, atOnce) => readInBatches(run, `log${++cursors}`, sql, values, atOnce),
      close: async () => {},
    }),
  });
}
