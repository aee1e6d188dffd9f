import type Database from "#better-sqlite3";
import { toStoreFailure } from "../../lib/store-failure.ts";

/** Runs work on the database, and turns errors of SQLite into `store_failed`. */
export function attempt<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw toStoreFailure(error);
  }
}

/** Makes `work` a method of the store. */
export function attempting<Args extends unknown[], T>(work: (...args: Args) => T): (...args: Args) => Promise<T> {
  return async (...args) => attempt(() => work(...args));
}

/** The same for asynchronous work. */
export async function attemptAll<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw toStoreFailure(error);
  }
}

/** Runs `work` without waiting for locks of other processes, which is otherwise done for `busyMs`. */
export function withoutWaiting<T>(database: Database.Database, busyMs: number, work: () => T): T {
  database.pragma("busy_timeout = 0");
  try {
    return work();
  } finally {
    database.pragma(`busy_timeout = ${busyMs}`);
  }
}
