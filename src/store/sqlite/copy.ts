import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import Database from "#better-sqlite3";
import { withDraftFile, publish, removeOrphanedDrafts } from "../../lib/draft-file.ts";
import { BerthError } from "../../lib/errors.ts";
import type { Log } from "../../lib/log.ts";
import { toStoreFailure } from "../../lib/store-failure.ts";
import {
  PREFILLED_TABLES,
  BYTES_AT_ONCE,
  columnList,
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
import { attempt } from "./attempt.ts";
import { readableLinks } from "./audit.ts";
import { storeNow } from "./clock.ts";
import { closeDatabase, DATABASE_FILE, openDatabase, whyUnusable } from "./open-database.ts";
import { foreignLog, newStoreId } from "./store-files.ts";
import { upgradeDatabase } from "./upgrade.ts";
import { verifyDatabase } from "./verify-database.ts";

const BUSY_MS = 5_000;

/** Reads the store of a data folder in its current state, after upgrading its schema. Throws `store_failed`. */
export function sqliteSource(dataDir: string, log?: Log): CopySource {
  const database = openDatabase(dataDir, BUSY_MS, log);
  const queryNumber = (sql: string, ...values: unknown[]): number =>
    attempt(
      () =>
        database
          .prepare<unknown[], number>(sql)
          .pluck()
          .get(...values) ?? 0,
    );
  const readMarks = (): string => JSON.stringify(attempt(() => database.prepare(CHANGE_MARKERS).get()));
  try {
    database.exec("BEGIN");
    // Reading rows alone would miss those that are unreachable because of a damaged page.
    const state = database.pragma("integrity_check(1)", { simple: true }) as string;
    if (state !== "ok") {
      const fix = 'restore a backup with "berth restore FILE", and copy the store again';
      throw new BerthError("backup_failed", `the store in ${dataDir} is damaged (${state.split("\n").at(-1)}): ${fix}`);
    }
    const marksBefore = readMarks();
    return {
      latestChange: queryNumber("SELECT seq FROM sqlite_sequence WHERE name = 'name_change'"),
      nodes: queryNumber("SELECT count(*) FROM node WHERE expires_at > ?", storeNow()),
      keyIds: database.prepare<[], string>("SELECT DISTINCT key_id FROM secret ORDER BY key_id").pluck().all(),
      async *rows(table) {
        yield* readRows(database, table);
      },
      count: async (table) => queryNumber(countRows(table)),
      audit: readableLinks(database),
      async isChanged() {
        database.exec("COMMIT");
        return readMarks() !== marksBefore;
      },
      async close() {
        closeDatabase(database);
      },
    };
  } catch (error) {
    closeDatabase(database);
    throw toStoreFailure(error);
  }
}

/**
 * Writes a store into a data folder without one, as a draft that is moved into place when it is complete. The draft of
 * a killed process prevents serving from there, until the next copy removes it. Rejects with `backup_failed`.
 */
export function createInSqlite(dataDir: string): StoreCreator {
  const to = join(dataDir, DATABASE_FILE);
  return async (work) => {
    try {
      await mkdir(dataDir, { recursive: true, mode: 0o700 });
      removeOrphanedDrafts(dataDir);
      rejectIfTaken(foreignLog(to) !== undefined || existsSync(to), dataDir);
      return await withDraftFile(to, async (draft) => {
        const result = await write(draft, work);
        const { problems } = verifyDatabase(draft);
        if (problems.length > 0) throw new BerthError("backup_failed", `the copy is damaged: ${problems.join("; ")}`);
        rejectIfTaken(existsSync(to), dataDir);
        await publish(draft, to);
        return result;
      });
    } catch (error) {
      if (error instanceof BerthError) throw error;
      const reason = whyUnusable(dataDir, error as NodeJS.ErrnoException);
      throw new BerthError("backup_failed", `in the folder ${dataDir}: ${reason}`, { cause: error });
    }
  };
}

function rejectIfTaken(isTaken: boolean, dataDir: string): void {
  if (isTaken) throw new BerthError("backup_failed", `${dataDir} already contains a store; use another folder`);
}

async function write<T>(draft: string, work: (target: CopyTarget) => Promise<T>): Promise<T> {
  const database = new Database(draft);
  try {
    // It is only read once it is complete and on disk.
    database.pragma("synchronous = OFF");
    database.pragma("foreign_keys = ON");
    upgradeDatabase(database);
    database.pragma(`application_id = ${newStoreId()}`);
    database.exec("BEGIN");
    for (const table of PREFILLED_TABLES) database.exec(`DELETE FROM ${table}`);
    const result = await work(createTarget(database));
    database.exec("COMMIT");
    return result;
  } finally {
    database.close();
  }
}

function createTarget(database: Database.Database): CopyTarget {
  const addLeaf = database.prepare("INSERT INTO content_leaf (content_id, is_package) VALUES (?, ?)");
  const statements = new Map<string, Database.Statement>();
  return {
    async write(table, rows) {
      const { name, columns } = isContent(table) ? CONTENT : table;
      const columnNames = Object.keys(columns);
      const insert = `INSERT INTO ${name} (${columnList({ columns })}) VALUES (${columnNames.map(() => "?").join(", ")})`;
      const insertRow = statements.get(name) ?? database.prepare(insert);
      statements.set(name, insertRow);
      for (const row of rows) {
        insertRow.run(
          ...columnNames.map((column) => (typeof row[column] === "boolean" ? Number(row[column]) : row[column])),
        );
        if (isContent(table) && row["is_leaf"] === true) addLeaf.run(row["id"], Number(row["is_package"]));
      }
    },

    count: async (table) => database.prepare<[], number>(countRows(table)).pluck().get()!,
    audit: readableLinks(database),

    async continueAfter(latestChange) {
      database.exec("DELETE FROM sqlite_sequence WHERE name = 'name_change'");
      database.prepare("INSERT INTO sqlite_sequence (name, seq) VALUES ('name_change', ?)").run(latestChange);
    },
  };
}

/** In SQLite, a separate table lists the leaves. */
const CONTENT = { name: "content", columns: { id: "bigint", cid: "text", bytes: "bytea" } } as const;
const READ_CONTENT = `SELECT id, cid, bytes, content_id IS NOT NULL AS is_leaf, coalesce(is_package, 0) AS is_package
  FROM content LEFT JOIN content_leaf ON content_id = id`;

function isContent({ name }: CopiedTable): boolean {
  return name === CONTENT.name;
}

function* readRows(database: Database.Database, table: CopiedTable): Generator<CopiedRow[]> {
  const query = `${isContent(table) ? READ_CONTENT : selectRows(table)} ${orderBy(table)}`;
  const booleans = Object.entries(table.columns).flatMap(([column, type]) => (type === "boolean" ? [column] : []));
  let rows: CopiedRow[] = [];
  let bytes = 0;
  for (const row of database.prepare<[], Record<string, unknown>>(query).iterate()) {
    for (const column of booleans) row[column] = row[column] === 1;
    rows.push(row);
    bytes += longValueLength(table, row);
    if (rows.length < ROWS_AT_ONCE && bytes < BYTES_AT_ONCE) continue;
    yield rows;
    [rows, bytes] = [[], 0];
  }
  if (rows.length > 0) yield rows;
}

/** In bytes or UTF-16 code units, depending on its type. */
function longValueLength({ long }: CopiedTable, row: CopiedRow): number {
  const value = long === undefined ? null : row[long];
  return value === null ? 0 : (value as string | Uint8Array).length;
}
