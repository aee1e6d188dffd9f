import { constants, copyFileSync, fsyncSync, closeSync, mkdirSync, openSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import Database from "#better-sqlite3";
import { BerthError } from "../../lib/errors.ts";
import { brokenLog, type BrokenLog } from "./log-frames.ts";
import { verifyDatabase } from "./verify-database.ts";

export interface KeptLog extends BrokenLog {
  /** The folder that holds the files as they were. */
  readonly kept: string;
}

/**
 * Undefined where SQLite knows everything that was committed; while somebody has the database open, that holds for a
 * broken log, too. This process must not have the database open.
 */
export function unreadLog(databaseFile: string): BrokenLog | undefined {
  const broken = brokenLog(databaseFile);
  if (!broken) return undefined;
  let database: Database.Database | undefined;
  try {
    // SQLite leaves the files alone for a reader.
    database = new Database(databaseFile, { readonly: true, fileMustExist: true });
    database.pragma("user_version");
    const [{ log }] = database.pragma("wal_checkpoint(NOOP)") as [{ log: number }];
    return log < broken.committed ? broken : undefined;
  } catch {
    return broken;
  } finally {
    database?.close();
  }
}

/**
 * Copies the files of a database with a broken log beside it, before SQLite overwrites what it does not read. Throws
 * `store_failed`, and changes nothing, where what SQLite reads is inconsistent: later changes may be in the database
 * already.
 */
export function keepBrokenLog(databaseFile: string): KeptLog | undefined {
  const broken = unreadLog(databaseFile);
  if (!broken) return undefined;
  const [problem] = verifyDatabase(databaseFile).problems;
  if (problem !== undefined) {
    const remedy = 'restore a backup with "berth restore FILE", which keeps the present files';
    throw new BerthError(
      "store_failed",
      `${breakText(databaseFile, broken)}, and the rest is damaged (${problem}): ${remedy}`,
    );
  }
  const kept = join(dirname(databaseFile), `broken-log-${new Date().toISOString().replaceAll(":", "-")}`);
  mkdirSync(kept, { mode: 0o700 });
  try {
    for (const file of [databaseFile, `${databaseFile}-wal`]) keepIn(kept, file);
  } catch (error) {
    rmSync(kept, { recursive: true, force: true });
    throw error;
  }
  return { ...broken, kept };
}

export function breakText(databaseFile: string, { frame, committed }: BrokenLog): string {
  return `${basename(databaseFile)}-wal is broken at frame ${frame} of ${committed}`;
}

function keepIn(folder: string, file: string): void {
  const copy = join(folder, basename(file));
  copyFileSync(file, copy, constants.COPYFILE_FICLONE);
  const opened = openSync(copy, "r");
  try {
    fsyncSync(opened);
  } finally {
    closeSync(opened);
  }
}
