import { setTimeout as pause } from "node:timers/promises";
import Database from "#better-sqlite3";
import { removeClaims } from "../leftover-claims.ts";
import type { Statement, Steps, Write } from "../steps.ts";
import type { ReadTransaction } from "../tenant-snapshot.ts";
import { storeNow } from "./clock.ts";
import { sqliteDialect } from "./dialect.ts";
import type { WriteAheadLog } from "./write-ahead-log.ts";

type Execute = (statement: Statement) => object[];

const executors = new WeakMap<Database.Database, Execute>();

/** Runs steps synchronously, on a connection that prepares each statement once. */
export function runSteps<T>(database: Database.Database, steps: Steps<T>): T {
  const execute = executorFor(database);
  try {
    let next = steps.next([]);
    while (!next.done) next = steps.next(execute(next.value));
    return next.value;
  } finally {
    // End open loops over rows when a statement fails: they would keep the connection busy.
    steps.return(undefined as T);
  }
}

/** The same with a `rest` before each statement. */
export async function runStepsWithRests<T>(
  database: Database.Database,
  steps: Steps<T>,
  rest: () => Promise<void>,
): Promise<T> {
  const execute = executorFor(database);
  for (let next = steps.next([]); ;) {
    if (next.done) return next.value;
    await rest();
    next = steps.next(execute(next.value));
  }
}

export function inTransaction<T>(database: Database.Database, work: () => Steps<T>): T {
  return database.transaction(() => runSteps(database, work())).immediate();
}

/** Runs transactions that leave time for other writes: each waits for as long as the previous one took. */
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

/** Removes everything under an alias. */
export function removeAliasData(database: Database.Database, log: WriteAheadLog, alias: string): Promise<number> {
  return removeClaims(shortWrites(database, log), sqliteDialect, alias);
}

/** The same after a committed change. If it fails, the next collection removes the rest. */
export async function tryRemoveAliasData(
  database: Database.Database,
  log: WriteAheadLog,
  alias: string,
): Promise<void> {
  await removeAliasData(database, log, alias).catch(() => {});
}

function executorFor(database: Database.Database): Execute {
  const existing = executors.get(database);
  if (existing) return existing;
  // Must be an integer: a number would be stored as floating point.
  database.function("berth_now", () => BigInt(storeNow()));
  const prepared = new Map<string, Database.Statement<[object], object>>();
  const execute: Execute = ({ sql, values }) => {
    const statement = prepared.get(sql) ?? database.prepare<[object], object>(sql);
    prepared.set(sql, statement);
    const parameters = toParameters(values);
    return statement.reader ? statement.all(parameters) : (statement.run(parameters), []);
  };
  executors.set(database, execute);
  return execute;
}

/** A read-only transaction on a file. */
export function openReadTransaction(file: string): ReadTransaction {
  const database = new Database(file, { readonly: true, fileMustExist: true });
  database.exec("BEGIN");
  const run = executorFor(database);
  return {
    run: async <Row extends object>(sql: string, values: readonly unknown[]) => run({ sql, values }) as Row[],
    async *parts<Row extends object>(sql: string, values: readonly unknown[], atOnce: number) {
      let batch: Row[] = [];
      for (const row of database.prepare<[object], Row>(sql).iterate(toParameters(values))) {
        batch.push(row);
        if (batch.length < atOnce) continue;
        yield batch;
        batch = [];
      }
      if (batch.length > 0) yield batch;
    },
    async close() {
      database.close();
    },
  };
}

function toParameters(values: readonly unknown[]): object {
  return Object.fromEntries(values.map((value, index) => [index + 1, toBindable(value)]));
}

/** SQLite has neither booleans nor arrays. */
function toBindable(value: unknown = null): unknown {
  return typeof value === "boolean" ? Number(value) : Array.isArray(value) ? JSON.stringify(value) : value;
}
