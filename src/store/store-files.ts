import { randomInt } from "node:crypto";
import { closeSync, existsSync, openSync, readSync, readdirSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type Database from "better-sqlite3";
import { BerthError } from "../errors.ts";

/**
 * The files of a store: the database, and SQLite's log of what is not in it yet. Which is which is known by their names
 * alone, so here stands how to tell that they are those that were opened, and that the log is the database's own: SQLite
 * replays any log that it finds beside a database, and one of another database leaves nothing whole.
 */
/** What stands beside a database under its name, and is nothing without it. */
export const BESIDE = ["-wal", "-shm", "-journal"] as const;

/** A file whatever it is called; undefined where there is none. */
export function identityOf(file: string): string | undefined {
  const found = statSync(file, { bigint: true, throwIfNoEntry: false });
  return found && `${found.dev}:${found.ino}`;
}

/** The files that were opened, while they stand where they stood. */
export class OpenedFiles {
  readonly #known: ReadonlyMap<string, string | undefined>;

  constructor(databaseFile: string) {
    const files = [databaseFile, `${databaseFile}-wal`];
    this.#known = new Map(files.map((file) => [file, identityOf(file)]));
  }

  /** Throws `store_failed` where what is written is found by nobody who opens the store after this. */
  check(): void {
    for (const [file, identity] of this.#known) if (identityOf(file) !== identity) throw moved();
  }
}

export function moved(): BerthError {
  const what = "its files were moved or deleted while Berth serves, so that no change would be kept";
  return new BerthError("store_failed", `${what}; put them back, or restore a backup`);
}

/**
 * A database has a number of its own in its first page, as `application_id`: so that a log that holds this page tells
 * whose it is. It is there before any log is, and Berth begins each log with that page.
 */
export function newStoreId(): number {
  return randomInt(1, 0x7f_ff_ff_ff);
}

/** The stamp: a write that changes nothing but the first page of a log. */
export function stampLog(database: Database.Database): void {
  database.exec("BEGIN IMMEDIATE");
  try {
    const version = database.pragma("user_version", { simple: true }) as number;
    database.pragma(`user_version = ${version}`);
    database.exec("COMMIT");
  } catch (error) {
    database.exec("ROLLBACK");
    throw error;
  }
}

/**
 * Undefined where SQLite may open the database; else what stands in the way. Nobody may have it open in this process:
 * whoever closes a file loses the locks of all who have it open there.
 */
export function foreignLog(databaseFile: string): string | undefined {
  const name = basename(databaseFile);
  const size = statSync(databaseFile, { throwIfNoEntry: false })?.size ?? 0;
  if (size === 0) {
    const left = existsSync(dirname(databaseFile)) ? readdirSync(dirname(databaseFile)) : [];
    const parts = left.filter((file) => isPart(name, file) && statSync(join(dirname(databaseFile), file)).size > 0);
    return parts.length > 0
      ? `${parts.join(", ")} ${parts.length > 1 ? "are" : "is"} there without ${name}`
      : undefined;
  }
  // Whoever gives an old database its number does it between one look and the other.
  if (isOwnLog(databaseFile) || isOwnLog(databaseFile)) return undefined;
  return `${name}-wal is the log of another database than ${name}`;
}

/** A log, or what a restore writes that did not come to its end. */
function isPart(name: string, file: string): boolean {
  return file.startsWith(name) && /^(?:-wal|\.[0-9a-f]{12})$/.test(file.slice(name.length));
}

function isOwnLog(databaseFile: string): boolean {
  const inLog = idInLog(`${databaseFile}-wal`);
  return inLog === undefined || inLog === idInFile(databaseFile);
}

/** Where SQLite keeps `application_id`, in the first page. */
const ID_AT = 68;

function idInFile(file: string): number {
  return withFile(file, (read) => read(0, ID_AT + 4)?.readUInt32BE(ID_AT)) ?? 0;
}

const LOG_HEADER = 32;
const FRAME_HEADER = 24;
/** What comes before the first page of the database in a log is looked through no further. */
const LOOKED_AT_BYTES = 4 * 1024 * 1024;

/** As the first page says that stands in the log, of those frames that SQLite would read; undefined where none does. */
function idInLog(file: string): number | undefined {
  if (!existsSync(file)) return undefined;
  return withFile(file, (read) => {
    const header = read(0, LOG_HEADER);
    if (!header || header.readUInt32BE(0) >>> 1 !== 0x377f0682 >>> 1) return undefined;
    const isBigEndian = (header[3]! & 1) === 1;
    const sums = checksum(header.subarray(0, LOG_HEADER - 8), isBigEndian, [0, 0]);
    if (sums[0] !== header.readUInt32BE(24) || sums[1] !== header.readUInt32BE(28)) return undefined;
    const frameBytes = FRAME_HEADER + header.readUInt32BE(8);
    for (let at = LOG_HEADER; at < LOOKED_AT_BYTES; at += frameBytes) {
      const frame = read(at, frameBytes);
      if (!frame || !frame.subarray(8, 16).equals(header.subarray(16, 24))) return undefined;
      checksum(frame.subarray(0, 8), isBigEndian, sums);
      checksum(frame.subarray(FRAME_HEADER), isBigEndian, sums);
      if (sums[0] !== frame.readUInt32BE(16) || sums[1] !== frame.readUInt32BE(20)) return undefined;
      if (frame.readUInt32BE(0) === 1) return frame.readUInt32BE(FRAME_HEADER + ID_AT);
    }
    return undefined;
  });
}

/** SQLite's, of the format of its log (https://sqlite.org/fileformat2.html#checksum_algorithm). Changes `sums`. */
function checksum(bytes: Buffer, isBigEndian: boolean, sums: [number, number]): [number, number] {
  const word = (at: number): number => (isBigEndian ? bytes.readUInt32BE(at) : bytes.readUInt32LE(at));
  for (let at = 0; at < bytes.length; at += 8) {
    sums[0] = (sums[0] + word(at) + sums[1]) >>> 0;
    sums[1] = (sums[1] + word(at + 4) + sums[0]) >>> 0;
  }
  return sums;
}

type Read = (at: number, length: number) => Buffer | undefined;

/** Reads parts of a file; undefined for a part that is not there whole. */
function withFile<T>(file: string, work: (read: Read) => T): T {
  const opened = openSync(file, "r");
  try {
    return work((at, length) => {
      const bytes = Buffer.alloc(length);
      return readSync(opened, bytes, 0, length, at) === length ? bytes : undefined;
    });
  } finally {
    closeSync(opened);
  }
}
