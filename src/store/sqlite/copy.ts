import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import Database from "#better-sqlite3";
import { inDraft, publish, removeLeftDrafts } from "../../lib/draft-file.ts";
import { BerthError } from "../../lib/errors.ts";
import type { Log } from "../../lib/log.ts";
import { asStoreFailure } from "../../lib/store-failure.ts";
import {
  BEGUN_TABLES,
  BYTES_AT_ONCE,
  columnsOf,
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
import { attempt } from "./attempt.ts";
import { readableLinks } from "./audit.ts";
import { storeNow } from "./clock.ts";
import { closeDatabase, DATABASE_FILE, openDatabase, whyUnusable } from "./open-database.ts";
import { foreignLog, newStoreId } from "./store-files.ts";
import { upgradeDatabase } from "./upgrade.ts";
import { verifyDatabase } from "./verify-database.ts";

const BUSY_MS = 5_000;

/** Reads the store of a data folder as it stands now. Brings it to this version before. Throws `store_failed`. */
export function sqliteSource(dataDir: string, log?: Log): CopySource {
  const database = openDatabase(dataDir, BUSY_MS, log);
  const number = (sql: string, ...values: unknown[]): number =>
    attempt(
      () =>
        database
          .prepare<unknown[], number>(sql)
          .pluck()
          .get(...values) ?? 0,
    );
  const marks = (): string => JSON.stringify(attempt(() => database.prepare(MARKS).get()));
  try {
    database.exec("BEGIN");
    // Reading rows alone would miss those that a damaged page leads nowhere to.
    const state = database.pragma("integrity_check(1)", { simple: true }) as string;
    if (state !== "ok") {
      const remedy = 'restore a backup with "berth restore FILE", and copy the store again';
      throw new BerthError(
        "backup_failed",
        `the store in ${dataDir} is damaged (${state.split("\n").at(-1)}): ${remedy}`,
      );
    }
    const before = marks();
    return {
      latestChange: number("SELECT seq FROM sqlite_sequence WHERE name = 'name_change'"),
      nodes: number("SELECT count(*) FROM node WHERE expires_at > ?", storeNow()),
      keyIds: database.prepare<[], string>("SELECT DISTINCT key_id FROM secret ORDER BY key_id").pluck().all(),
      async *rows(table) {
        yield* rowsOf(database, table);
      },
      count: async (table) => number(countOf(table)),
      audit: readableLinks(database),
      async isChanged() {
        database.exec("COMMIT");
        return marks() !== before;
      },
      async close() {
        closeDatabase(database);
      },
    };
  } catch (error) {
    closeDatabase(database);
    throw asStoreFailure(error);
  }
}

/**
 * Writes a store into a data folder that has none, beside its place, where it is put when it is whole. What a killed copy
 * left keeps others from serving from there, until the next copy removes it. Rejects with `backup_failed`.
 */
export function intoSqlite(dataDir: string): IntoStore {
  const to = join(dataDir, DATABASE_FILE);
  return async (work) => {
    try {
      await mkdir(dataDir, { recursive: true, mode: 0o700 });
      removeLeftDrafts(dataDir);
      refuse(foreignLog(to) !== undefined || existsSync(to), dataDir);
      return await inDraft(to, async (draft) => {
        const result = await write(draft, work);
        const { problems } = verifyDatabase(draft);
        if (problems.length > 0) throw new BerthError("backup_failed", `the copy is damaged: ${problems.join("; ")}`);
        refuse(existsSync(to), dataDir);
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

function refuse(isTaken: boolean, dataDir: string): void {
  if (isTaken) throw new BerthError("backup_failed", `there is a store in ${dataDir} already; name another folder`);
}

async function write<T>(draft: string, work: (target: CopyTarget) => Promise<T>): Promise<T> {
  const database = new Database(draft);
  try {
    // Nobody reads it before it is whole and on the disk.
    database.pragma("synchronous = OFF");
    database.pragma("foreign_keys = ON");
    upgradeDatabase(database);
    database.pragma(`application_id = ${newStoreId()}`);
    database.exec("BEGIN");
    for (const table of BEGUN_TABLES) database.exec(`DELETE FROM ${table}`);
    const result = await work(targetIn(database));
    database.exec("COMMIT");
    return result;
  } finally {
    database.close();
  }
}

function targetIn(database: Database.Database): CopyTarget {
  const addLeaf = database.prepare("INSERT INTO content_leaf (content_id, is_package) VALUES (?, ?)");
  const adding = new Map<string, Database.Statement>();
  return {
    async write(table, rows) {
      const { name, columns } = isContent(table) ? CONTENT : table;
      const added = Object.keys(columns);
      const insert = `INSERT INTO ${name} (${columnsOf({ columns })}) VALUES (${added.map(() => "?").join(", ")})`;
      const add = adding.get(name) ?? database.prepare(insert);
      adding.set(name, add);
      for (const row of rows) {
        add.run(...added.map((column) => (typeof row[column] === "boolean" ? Number(row[column]) : row[column])));
        if (isContent(table) && row["is_leaf"] === true) addLeaf.run(row["id"], Number(row["is_package"]));
      }
    },

    count: async (table) => database.prepare<[], number>(countOf(table)).pluck().get()!,
    audit: readableLinks(database),

    async continueAfter(latestChange) {
      database.exec("DELETE FROM sqlite_sequence WHERE name = 'name_change'");
      database.prepare("INSERT INTO sqlite_sequence (name, seq) VALUES ('name_change', ?)").run(latestChange);
    },
  };
}

/** Here another table tells of the leaves. */
const CONTENT = { name: "content", columns: { id: "bigint", cid: "text", bytes: "bytea" } } as const;
const READ_CONTENT = `SELECT id, cid, bytes, content_id IS NOT NULL AS is_leaf, coalesce(is_package, 0) AS is_package
  FROM content LEFT JOIN content_leaf ON content_id = id`;

function isContent({ name }: CopiedTable): boolean {
  return name === CONTENT.name;
}

function* rowsOf(database: Database.Database, table: CopiedTable): Generator<CopiedRow[]> {
  const all = `${isContent(table) ? READ_CONTENT : selectOf(table)} ${orderOf(table)}`;
  const booleans = Object.entries(table.columns).flatMap(([column, type]) => (type === "boolean" ? [column] : []));
  let rows: CopiedRow[] = [];
  let bytes = 0;
  for (const row of database.prepare<[], Record<string, unknown>>(all).iterate()) {
    for (const column of booleans) row[column] = row[column] === 1;
    rows.push(row);
    bytes += longLengthOf(table, row);
    if (rows.length < ROWS_AT_ONCE && bytes < BYTES_AT_ONCE) continue;
    yield rows;
    [rows, bytes] = [[], 0];
  }
  if (rows.length > 0) yield rows;
}

/** In the units of its type. */
function longLengthOf({ long }: CopiedTable, row: CopiedRow): number {
  const value = long === undefined ? null : row[long];
  return value === null ? 0 : (value as string | Uint8Array).length;
}
