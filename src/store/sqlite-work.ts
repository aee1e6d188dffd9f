import type Database from "better-sqlite3";
import { BerthError } from "../errors.ts";

/** Runs what touches the file; whatever SQLite throws becomes `store_failed`. */
export function attempt<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw asStoreFailure(error);
  }
}

/** As `attempt`, for work in several steps. */
export async function attemptAll<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw asStoreFailure(error);
  }
}

export function asStoreFailure(error: unknown): BerthError {
  if (error instanceof BerthError) return error;
  return new BerthError("store_failed", (error as Error).message, { cause: error });
}

/** Does not wait for another process's writing, for which else `busyMs` are waited. */
export function atOnce<T>(database: Database.Database, busyMs: number, work: () => T): T {
  database.pragma("busy_timeout = 0");
  try {
    return work();
  } finally {
    database.pragma(`busy_timeout = ${busyMs}`);
  }
}
