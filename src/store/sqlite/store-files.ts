import { hash, randomInt } from "node:crypto";
import { existsSync, readdirSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type Database from "#better-sqlite3";
import { BerthError } from "../../lib/errors.ts";
import { atOnce, attempt } from "./attempt.ts";
import { idInFile, someIdInLog } from "./log-frames.ts";

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
 * A new id of a database. The first page has the id as `application_id`, which is 0 before the first stamp. Each stamp
 * changes it: the first write to an empty log, and one before the log is moved into the database. SQLite replays any
 * valid log over any database. By these ids Berth recognizes a log that does not continue the database next to it, even
 * if both were once files of the same store.
 */
export function newStoreId(previous = 0): number {
  return randomInt(1, 0x1_00_00) * LINKS + linkTo(previous);
}

const LINKS = 0x80_00;

/** The part of an id that depends on the previous one. */
function linkTo(id: number): number {
  return hash("sha256", String(id), "buffer").readUInt16BE() % LINKS;
}

/** Commits a new id, and nothing else. */
export function stampLog(database: Database.Database): void {
  database.transaction(() => stamp(database)).immediate();
}

/** Part of a transaction. */
export function stamp(database: Database.Database): void {
  const id = database.pragma("application_id", { simple: true }) as number;
  database.pragma(`application_id = ${newStoreId(id)}`);
}

/** Stamps a log that is about to be moved into the database. */
export function stampEnd(database: Database.Database): void {
  try {
    atOnce(database, database.pragma("busy_timeout", { simple: true }) as number, () => stampLog(database));
  } catch {
    // The disk is full, or another process is writing. Only a later mix-up of files would go unnoticed.
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
  // Another process may move the log into the database between the two reads.
  if (isOwnLog(databaseFile) || isOwnLog(databaseFile)) return undefined;
  return `${name}-wal is not the log of ${name}, but of another database or of an earlier or later copy of it`;
}

/** A log, or an interrupted write of a restore. */
function isPart(name: string, file: string): boolean {
  return file.startsWith(name) && /^(?:-wal|\.[0-9a-f]{12})$/.test(file.slice(name.length));
}

function isOwnLog(databaseFile: string): boolean {
  const own = idInFile(databaseFile);
  const continues = (id: number, isFirst: boolean): boolean => id === own || (isFirst && id % LINKS === linkTo(own));
  return someIdInLog(`${databaseFile}-wal`, continues) ?? true;
}
