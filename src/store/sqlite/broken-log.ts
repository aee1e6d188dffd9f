import { constants, copyFileSync, fsyncSync, closeSync, mkdirSync, openSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import Database from "#better-sqlite3";
import { BerthError } from "../../lib/errors.ts";
import { findBrokenLog, type BrokenLog } from "./log-frames.ts";
import { verifyDatabase } from "./verify-database.ts";

export interface PreservedLog extends BrokenLog {
  /** The folder with unchanged copies of the files. */
  readonly kept: string;
}

/**
 * Undefined if SQLite reads everything that was committed, which includes a broken log that a running process has
 * indexed. This process must not have the database open.
 */
export function findUnreadLog(databaseFile: string): BrokenLog | undefined {
  const broken = findBrokenLog(databaseFile);
  if (!broken) return undefined;
  let database: Database.Database | undefined;
  try {
    // SQLite does not modify the files for a reader.
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
 * Copies the files of a database with a broken log next to it, before SQLite overwrites what it does not read. Throws
 * `store_failed`, without changing anything, if what SQLite reads is inconsistent, since later changes may already be
 * in the database.
 */
export function preserveBrokenLog(databaseFile: string): PreservedLog | undefined {
  const broken = findUnreadLog(databaseFile);
  if (!broken) return undefined;
  const [problem] = verifyDatabase(databaseFile).problems;
  if (problem !== undefined) {
    const fix = 'restore a backup with "berth restore FILE", which preserves the current files';
    throw new BerthError(
      "store_failed",
      `${describeBreak(databaseFile, broken)}, and the rest is damaged (${problem}): ${fix}`,
    );
  }
  const kept = join(dirname(databaseFile), `broken-log-${new Date().toISOString().replaceAll(":", "-")}`);
  mkdirSync(kept, { mode: 0o700 });
  try {
    for (const file of [databaseFile, `${databaseFile}-wal`]) copyDurably(kept, file);
  } catch (error) {
    rmSync(kept, { recursive: true, force: true });
    throw error;
  }
  return { ...broken, kept };
}

export function describeBreak(databaseFile: string, { frame, committed }: BrokenLog): string {
  return `${basename(databaseFile)}-wal is broken at frame ${frame} of ${committed}`;
}

function copyDurably(folder: string, file: string): void {
  const copy = join(folder, basename(file));
  copyFileSync(file, copy, constants.COPYFILE_FICLONE);
  const descriptor = openSync(copy, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
