import type Database from "#better-sqlite3";
import { BerthError } from "../lib/errors.ts";

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
  const { code = "", message } = error as { code?: string; message: string };
  return new BerthError("store_failed", whatFailed(code) ?? message, { cause: error });
}

export const DISK_FULL = "the disk of the data folder is full, and nothing was changed; make room on it";

/** SQLite says the same where the disk could not read once. */
const DAMAGED =
  "the database is damaged, or its disk cannot be read; restore a backup (berth restore) if /readyz stays 503";

/** Without SQLite's word for it where that is no help, and without a path: it is told to whoever asked. */
function whatFailed(code: string): string | undefined {
  if (code === "SQLITE_FULL") return DISK_FULL;
  if (code.startsWith("SQLITE_READONLY")) return "the data folder cannot be written, and nothing was changed";
  if (/^SQLITE_(CORRUPT|NOTADB)/.test(code)) return DAMAGED;
  if (code.startsWith("SQLITE_IOERR")) return "the disk of the data folder fails";
  if (/^E[A-Z0-9]+$/.test(code)) return `the files of the store cannot be looked at (${code}), and nothing was changed`;
  return undefined;
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
