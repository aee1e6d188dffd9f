import { hash, randomInt } from "node:crypto";
import { existsSync, readdirSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type Database from "#better-sqlite3";
import { BerthError } from "../../lib/errors.ts";
import { withoutWaiting, attempt } from "./attempt.ts";
import { readStoreId, hasAcceptedId } from "./log-frames.ts";

/**
 * The files of a store: the database, and SQLite's log with what is not yet in it. They are only related by their
 * names, so this module checks that they are still the opened ones, and that the log belongs to the database: SQLite
 * replays any log that it finds next to a database, and the log of another one corrupts it.
 */

/** Identifies a file regardless of its name; undefined if there is none. */
export function fileIdentity(file: string): string | undefined {
  const stats = statSync(file, { bigint: true, throwIfNoEntry: false });
  return stats && `${stats.dev}:${stats.ino}`;
}

/** Checks that the opened files are still in place. */
export class OpenedFiles {
  readonly #identities: ReadonlyMap<string, string | undefined>;

  constructor(databaseFile: string) {
    const files = [databaseFile, `${databaseFile}-wal`];
    this.#identities = new Map(files.map((file) => [file, fileIdentity(file)]));
  }

  /** Throws `store_failed` unless a later opening of the store will find what is written now. */
  check(): void {
    for (const [file, identity] of this.#identities)
      if (attempt(() => fileIdentity(file)) !== identity) throw filesMoved();
  }
}

export function filesMoved(): BerthError {
  const problem = "its files were moved or deleted while Berth was running, so changes would be lost";
  return new BerthError("store_failed", `${problem}; put them back, or restore a backup`);
}

/**
 * A new id for a database, stored as `application_id` in its first page, which is 0 before the first stamp. Each stamp
 * changes it: the first write to an empty log, and a write before the log is moved into the database. SQLite replays
 * any valid log over any database. By these ids, Berth recognizes a log that does not continue the database next to it,
 * even if both were once files of the same store.
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
  database.transaction(() => stampInTransaction(database)).immediate();
}

export function stampInTransaction(database: Database.Database): void {
  const id = database.pragma("application_id", { simple: true }) as number;
  database.pragma(`application_id = ${newStoreId(id)}`);
}

/** Stamps a log that is about to be moved into the database. */
export function tryStampLog(database: Database.Database): void {
  try {
    withoutWaiting(database, database.pragma("busy_timeout", { simple: true }) as number, () => stampLog(database));
  } catch {
    // The disk is full, or another process is writing. At worst, a later mix-up of files goes undetected.
  }
}

/**
 * Undefined if SQLite may open the database, otherwise the conflict with other files. This process must not have the
 * database open: closing a file releases all locks of the process on it.
 */
export function foreignLog(databaseFile: string): string | undefined {
  const name = basename(databaseFile);
  const size = statSync(databaseFile, { throwIfNoEntry: false })?.size ?? 0;
  if (size === 0) {
    const siblings = existsSync(dirname(databaseFile)) ? readdirSync(dirname(databaseFile)) : [];
    const parts = siblings.filter((file) => isPart(name, file) && statSync(join(dirname(databaseFile), file)).size > 0);
    return parts.length > 0
      ? `${parts.join(", ")} ${parts.length > 1 ? "exist" : "exists"} without ${name}`
      : undefined;
  }
  // Another process may move the log into the database between the two reads.
  if (isOwnLog(databaseFile) || isOwnLog(databaseFile)) return undefined;
  return `${name}-wal is not the log of ${name}, but of another database, or of an earlier or later copy of it`;
}

/** A log, or the draft of an interrupted restore. */
function isPart(name: string, file: string): boolean {
  return file.startsWith(name) && /^(?:-wal|\.[0-9a-f]{12})$/.test(file.slice(name.length));
}

function isOwnLog(databaseFile: string): boolean {
  const databaseId = readStoreId(databaseFile);
  const continues = (id: number, isFirst: boolean): boolean =>
    id === databaseId || (isFirst && id % LINKS === linkTo(databaseId));
  return hasAcceptedId(`${databaseFile}-wal`, continues) ?? true;
}
