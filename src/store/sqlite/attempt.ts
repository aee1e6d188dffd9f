import type Database from "#better-sqlite3";
import { asStoreFailure } from "../../lib/store-failure.ts";

/** Runs work on the file and turns whatever SQLite throws into `store_failed`. */
export function attempt<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw asStoreFailure(error);
  }
}

/** A method of the store that runs `work`. */
export function attempting<Args extends unknown[], T>(work: (...args: Args) => T): (...args: Args) => Promise<T> {
  return async (...args) => attempt(() => work(...args));
}

/** As `attempt`, for work in several steps. */
export async function attemptAll<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw asStoreFailure(error);
  }
}

/** Runs `work` without waiting for another process's write; normally that waits `busyMs`. */
export function atOnce<T>(database: Database.Database, busyMs: number, work: () => T): T {
  database.pragma("busy_timeout = 0");
  try {
    return work();
  } finally {
    database.pragma(`busy_timeout = ${busyMs}`);
  }
}
