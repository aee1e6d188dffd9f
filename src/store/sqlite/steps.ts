import { setTimeout as pause } from "node:timers/promises";
import Database from "#better-sqlite3";
import { removeClaims } from "../left-claims.ts";
import type { Statement, Steps, Write } from "../steps.ts";
import type { ReadTransaction } from "../tenant-snapshot.ts";
import { storeNow } from "./clock.ts";
import { sqliteDialect } from "./dialect.ts";
import type { WriteAheadLog } from "./write-ahead-log.ts";

type Execute = (statement: Statement) => object[];

const known = new WeakMap<Database.Database, Execute>();

/** Runs steps synchronously, on a connection that prepares each statement once. */
export function runSteps<T>(database: Database.Database, steps: Steps<T>): T {
  const execute = executeOn(database);
  try {
    let next = steps.next([]);
    while (!next.done) next = steps.next(execute(next.value));
    return next.value;
  } finally {
    // A statement that fails leaves loops over rows open, which would keep their connection busy.
    steps.return(undefined as T);
  }
}

/** As `runSteps`, with `rest` before each statement. */
export async function runStepsApart<T>(
  database: Database.Database,
  steps: Steps<T>,
  rest: () => Promise<void>,
): Promise<T> {
  const execute = executeOn(database);
  for (let next = steps.next([]); ;) {
    if (next.done) return next.value;
    await rest();
    next = steps.next(execute(next.value));
  }
}

/** Runs one transaction. */
export function inTransaction<T>(database: Database.Database, work: () => Steps<T>): T {
  return database.transaction(() => runSteps(database, work())).immediate();
}

/** Transactions in a row, between which others write for as long as they waited for the one before. */
export function shortWrites(database: Database.Database, log: WriteAheadLog): Write {
  let waitedMs = 0;
  return async (work) => {
    if (waitedMs > 0) await pause(waitedMs);
    const began = performance.now();
    const result = await log.write(() => inTransaction(database, work));
    waitedMs = performance.now() - began;
    return result;
  };
}

/** Removes what is left under an alias. */
export function removeLeft(database: Database.Database, log: WriteAheadLog, alias: string): Promise<number> {
  return removeClaims(shortWrites(database, log), sqliteDialect, alias);
}

/** As `removeLeft`, after a finished change: the next collection removes what remains if this fails. */
export async function removeLater(database: Database.Database, log: WriteAheadLog, alias: string): Promise<void> {
  await removeLeft(database, log, alias).catch(() => {});
}

function executeOn(database: Database.Database): Execute {
  const existing = known.get(database);
  if (existing) return existing;
  // An integer: a number would be a floating-point number.
  database.function("berth_now", () => BigInt(storeNow()));
  const prepared = new Map<string, Database.Statement<[object], object>>();
  const execute: Execute = ({ sql, values }) => {
    const statement = prepared.get(sql) ?? database.prepare<[object], object>(sql);
    prepared.set(sql, statement);
    const named = namedOf(values);
    return statement.reader ? statement.all(named) : (statement.run(named), []);
  };
  known.set(database, execute);
  return execute;
}

/** A transaction that reads from a file. */
export function openReadTransaction(file: string): ReadTransaction {
  const database = new Database(file, { readonly: true, fileMustExist: true });
  database.exec("BEGIN");
  const run = executeOn(database);
  return {
    run: async <Row extends object>(sql: string, values: readonly unknown[]) => run({ sql, values }) as Row[],
    async *parts<Row extends object>(sql: string, values: readonly unknown[], atOnce: number) {
      let part: Row[] = [];
      for (const row of database.prepare<[object], Row>(sql).iterate(namedOf(values))) {
        part.push(row);
        if (part.length < atOnce) continue;
        yield part;
        part = [];
      }
      if (part.length > 0) yield part;
    },
    async close() {
      database.close();
    },
  };
}

function namedOf(values: readonly unknown[]): object {
  return Object.fromEntries(values.map((value, index) => [index + 1, bound(value)]));
}

/** SQLite has neither booleans nor arrays. */
function bound(value: unknown = null): unknown {
  return typeof value === "boolean" ? Number(value) : Array.isArray(value) ? JSON.stringify(value) : value;
}
