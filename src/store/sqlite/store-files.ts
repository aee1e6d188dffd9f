import { randomInt } from "node:crypto";
import { existsSync, readdirSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type Database from "#better-sqlite3";
import { BerthError } from "../../lib/errors.ts";
import { attempt } from "./attempt.ts";
import { idInFile, idInLog } from "./log-frames.ts";

/**
 * The files of a store: the database, and SQLite's log of what is not in it yet. Only their names relate them, so this
 * file tells if they are the ones that were opened, and if the log is the database's own: SQLite replays any log that
 * it finds beside a database, and one of another database leaves nothing whole.
 */

/** Identifies a file whatever it is called; undefined where there is none. */
export function identityOf(file: string): string | undefined {
  const found = statSync(file, { bigint: true, throwIfNoEntry: false });
  return found && `${found.dev}:${found.ino}`;
}

/** The opened files, while they stand where they stood. */
export class OpenedFiles {
  readonly #known: ReadonlyMap<string, string | undefined>;

  constructor(databaseFile: string) {
    const files = [databaseFile, `${databaseFile}-wal`];
    this.#known = new Map(files.map((file) => [file, identityOf(file)]));
  }

  /** Throws `store_failed` unless any later opening of the store finds what is written now. */
  check(): void {
    for (const [file, identity] of this.#known) if (attempt(() => identityOf(file)) !== identity) throw moved();
  }
}

export function moved(): BerthError {
  const what = "its files were moved or deleted while Berth was running, so no change would be kept";
  return new BerthError("store_failed", `${what}; put them back, or restore a backup`);
}

/**
 * A database has a number of its own in its first page, as `application_id`, so that a log with this page tells whose
 * it is. The number is there before any log is, and Berth begins each log with that page.
 */
export function newStoreId(): number {
  return randomInt(1, 0x7f_ff_ff_ff);
}

/** Stamps the log: a write that changes nothing but the first page of a log. */
export function stampLog(database: Database.Database): void {
  database.exec("BEGIN IMMEDIATE");
  try {
    const version = database.pragma("user_version", { simple: true }) as number;
    database.pragma(`user_version = ${version}`);
    database.exec("COMMIT");
  } catch (error) {
    // A failed commit may have been rolled back already.
    if (database.inTransaction) database.exec("ROLLBACK");
    throw error;
  }
}

/**
 * Undefined where SQLite may open the database; else the file that stands in the way. This process must not have it
 * open: closing a file releases the locks of everyone who has it open in the process.
 */
export function foreignLog(databaseFile: string): string | undefined {
  const name = basename(databaseFile);
  const size = statSync(databaseFile, { throwIfNoEntry: false })?.size ?? 0;
  if (size === 0) {
    const left = existsSync(dirname(databaseFile)) ? readdirSync(dirname(databaseFile)) : [];
    const parts = left.filter((file) => isPart(name, file) && statSync(join(dirname(databaseFile), file)).size > 0);
    return parts.length > 0
      ? `${parts.join(", ")} ${parts.length > 1 ? "exist" : "exists"} without ${name}`
      : undefined;
  }
  // Another process may give an old database its number between the two checks.
  if (isOwnLog(databaseFile) || isOwnLog(databaseFile)) return undefined;
  return `${name}-wal is not the log of ${name}, but of another database`;
}

/** A log, or an interrupted write of a restore. */
function isPart(name: string, file: string): boolean {
  return file.startsWith(name) && /^(?:-wal|\.[0-9a-f]{12})$/.test(file.slice(name.length));
}

function isOwnLog(databaseFile: string): boolean {
  const inLog = idInLog(`${databaseFile}-wal`);
  return inLog === undefined || inLog === idInFile(databaseFile);
}
