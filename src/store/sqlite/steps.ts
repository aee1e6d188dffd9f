import { setTimeout as pause } from "node:timers/promises";
import type Database from "#better-sqlite3";
import type { Statement, Steps, Write } from "../steps.ts";
import { storeNow } from "./clock.ts";
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

function executeOn(database: Database.Database): Execute {
  const existing = known.get(database);
  if (existing) return existing;
  // An integer: a number would be a floating-point number.
  database.function("berth_now", () => BigInt(storeNow()));
  const prepared = new Map<string, Database.Statement<[object], object>>();
  const execute: Execute = ({ sql, values }) => {
    const statement = prepared.get(sql) ?? database.prepare<[object], object>(sql);
    prepared.set(sql, statement);
    const named = Object.fromEntries(values.map((value, index) => [index + 1, bound(value)]));
    return statement.reader ? statement.all(named) : (statement.run(named), []);
  };
  known.set(database, execute);
  return execute;
}

/** SQLite has neither booleans nor arrays. */
function bound(value: unknown = null): unknown {
  return typeof value === "boolean" ? Number(value) : Array.isArray(value) ? JSON.stringify(value) : value;
}
