import { accessSync, chmodSync, constants, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import Database from "#better-sqlite3";
import { entryOf, SERVICE } from "../../audit/audit-entry.ts";
import { BerthError } from "../../lib/errors.ts";
import type { Log } from "../../lib/log.ts";
import { appendAllAudit } from "./audit.ts";
import { keepBrokenLog, type KeptLog } from "./broken-log.ts";
import { foreignLog, stampEnd, stampLog } from "./store-files.ts";
import { refuseOther, upgradeDatabase, versionOf } from "./upgrade.ts";

/** The file inside the data folder. */
export const DATABASE_FILE = "berth.sqlite";

/** The databases that this process has open, those of threads that it started included. */
const opened = new Set<OpenedDatabase>();

export interface OpenedDatabase {
  readonly name: string;
  readonly open: boolean;
}

/**
 * Opens the database of a data folder, makes both if they are missing, and applies the missing migrations.
 * `isOpenHere`: another thread of this process has it open.
 */
export function openDatabase(
  dataDir: string,
  busyMs: number,
  log?: Log,
  isOpenHere = isOpen(join(dataDir, DATABASE_FILE)),
): Database.Database {
  let database: Database.Database | undefined;
  try {
    // Secrets are kept here: nobody else on the machine may read the folder or the file.
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    closeToOthers(dataDir);
    const file = join(dataDir, DATABASE_FILE);
    // Otherwise its log was examined then, and closing the file here would release SQLite's locks on it.
    const broken = isOpenHere ? undefined : lookAtLog(dataDir, file);
    database = new Database(file, { timeout: busyMs });
    chmodSync(file, 0o600);
    refuseOther(versionOf(database));
    keepLog(database, busyMs);
    // Writers do not wait for the disk: a write to keep is flushed separately (`write-ahead-log.ts`).
    database.pragma("synchronous = NORMAL");
    database.pragma("foreign_keys = ON");
    // What is removed may be a secret, or what a tenant had that is gone.
    database.pragma("secure_delete = ON");
    upgradeDatabase(database, log);
    if (broken) tellBroken(database, broken, log);
    // After an upgrade, which may sort a long table. A save then needs no further file, which a process may be unable
    // to open.
    database.pragma("temp_store = MEMORY");
    beginLog(database);
    noteOpened(database);
    return database;
  } catch (error) {
    database?.close();
    if (error instanceof BerthError) throw error;
    const reason = whyUnusable(dataDir, error as NodeJS.ErrnoException);
    throw new BerthError("store_failed", `the data folder ${dataDir} cannot be used: ${reason}`, { cause: error });
  }
}

/** The last process that closes the database moves the log into it. */
export function closeDatabase(database: Database.Database): void {
  stampEnd(database);
  database.close();
}

/**
 * An existing folder may be open to others. A folder of another user is left alone, and so is one in which others keep
 * something; whatever Berth makes in it is readable by its owner alone in any case.
 */
function closeToOthers(dataDir: string): void {
  const { mode, uid } = statSync(dataDir);
  if ((mode & 0o077) === 0 || uid !== process.getuid?.()) return;
  if (readdirSync(dataDir).every((file) => OWN_FILES.test(file))) chmodSync(dataDir, 0o700);
}

const OWN_FILES = /^(?:berth\.sqlite|import-|seal|secret|lost\+found$)/;

export function isOpen(file: string): boolean {
  for (const each of opened) if (!each.open) opened.delete(each);
  return Array.from(opened).some(({ name }) => name === file);
}

export function noteOpened(database: OpenedDatabase): void {
  opened.add(database);
}

/**
 * Runs before SQLite opens the database: SQLite takes any log for the database's own, and its readable part for all of
 * it.
 */
function lookAtLog(dataDir: string, file: string): KeptLog | undefined {
  const reason = foreignLog(file);
  if (reason === undefined) return keepBrokenLog(file);
  const remedy = `put back the ${DATABASE_FILE} that belongs there; or restore a backup with "berth restore FILE", which sets the present files aside; or move the other files away, which loses the changes in them`;
  throw new BerthError("store_failed", `in the data folder ${dataDir} ${reason}: ${remedy}`);
}

/** Told once: the log restarts. */
function tellBroken(database: Database.Database, { kept, ...broken }: KeptLog, log: Log | undefined): void {
  const facts = { action: "log-broken", ...broken, kept: basename(kept) };
  appendAllAudit(database, [entryOf(SERVICE, "service", facts)]);
  log?.error(
    { ...broken, kept },
    "the log of the store was broken, and later writes are not served: check whether the last changes were made, or restore a backup; the files are kept as they were",
  );
  stampEnd(database);
  database.pragma("wal_checkpoint(TRUNCATE)");
}

/** When several processes make the same new file at once, SQLite does not wait for the others here by itself. */
function keepLog(database: Database.Database, busyMs: number): void {
  for (const until = performance.now() + busyMs; ;) {
    try {
      database.pragma("journal_mode = WAL");
      return;
    } catch (error) {
      if (!isBusy(error) || performance.now() >= until) throw error;
      Atomics.wait(pause, 0, 0, AGAIN_MS);
    }
  }
}

const AGAIN_MS = 5;
const pause = new Int32Array(new SharedArrayBuffer(4));

/** Makes the database's first page the first in an empty log. Where that fails, later writers get the error. */
function beginLog(database: Database.Database): void {
  try {
    const [{ log }] = database.pragma("wal_checkpoint(NOOP)") as [{ log: number }];
    if (log <= 0) stampLog(database);
  } catch (error) {
    if (!/^SQLITE_(BUSY|FULL|IOERR|READONLY)/.test(codeOf(error))) throw error;
  }
}

function codeOf(error: unknown): string {
  return (error as { code?: string }).code ?? "";
}

function isBusy(error: unknown): boolean {
  return codeOf(error) === "SQLITE_BUSY";
}

export const OTHER_FOLDER = "name another folder (--data, BERTH_DATA)";
/** More than SQLite asks for when it opens a database. */
const ROOM_BYTES = 64 * 1024;

/** Says why a folder cannot be used, and what to do: SQLite reports a full disk and a broken one alike. */
export function whyUnusable(folder: string, error: NodeJS.ErrnoException, remedy = OTHER_FOLDER): string {
  if (/^SQLITE_(CORRUPT|NOTADB)/.test(codeOf(error))) {
    return `${DATABASE_FILE} is damaged (${error.message}); restore a backup with "berth restore FILE", which keeps the present files`;
  }
  // The error of a folder that could not be made only says that it is missing.
  const isSaid = /^E[A-Z]+$/.test(codeOf(error)) && codeOf(error) !== "ENOENT";
  const found = isSaid ? error : (writingFault(nearestOf(folder)) ?? error);
  switch (codeOf(found)) {
    case "ENOSPC":
    case "EDQUOT":
    case "SQLITE_FULL":
      return `its disk is full; free some space, or ${remedy}`;
    case "EROFS":
      return `its disk is read-only; mount it writable, or ${remedy}`;
    case "EACCES":
    case "EPERM":
      return `${ownersOf(folder)}; give it to the user of Berth (chown -R), or ${remedy}`;
    case "ENOTDIR":
    case "EEXIST":
      return `it is a file, or lies below one; ${remedy}`;
    case "ENOENT":
      return `it does not exist; create it, or ${remedy}`;
    case "EMFILE":
    case "ENFILE":
      return "Berth can open no more files; raise its limit (ulimit -n)";
    default:
      return error.message;
  }
}

function writingFault(folder: string): NodeJS.ErrnoException | undefined {
  const trial = join(folder, `.trial-${process.pid}`);
  try {
    for (const file of [DATABASE_FILE, `${DATABASE_FILE}-wal`, `${DATABASE_FILE}-shm`]) {
      const path = join(folder, file);
      if (statSync(path, { throwIfNoEntry: false })) accessSync(path, constants.R_OK | constants.W_OK);
    }
    writeFileSync(trial, Buffer.alloc(ROOM_BYTES, 1), { flag: "wx", mode: 0o600 });
    return undefined;
  } catch (error) {
    return error as NodeJS.ErrnoException;
  } finally {
    try {
      rmSync(trial, { force: true });
    } catch {
      // Nothing was written there.
    }
  }
}

function ownersOf(folder: string): string {
  const existing = nearestOf(folder);
  const owner = statOf(existing)?.uid;
  const what = existing === folder ? "it" : existing;
  const uid = process.getuid?.();
  if (owner === undefined || owner === uid) return `Berth may not read and write ${what}`;
  return `${what} belongs to the user ${owner}, and Berth runs as ${uid}`;
}

/** The folder, or the nearest existing one above it. */
function nearestOf(folder: string): string {
  let existing = folder;
  while (!statOf(existing) && dirname(existing) !== existing) existing = dirname(existing);
  return existing;
}

function statOf(path: string) {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}
