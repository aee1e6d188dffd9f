import { accessSync, chmodSync, constants, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import Database from "#better-sqlite3";
import { auditEntry, SERVICE } from "../../audit/audit-entry.ts";
import { BerthError } from "../../lib/errors.ts";
import type { Log } from "../../lib/log.ts";
import { appendAllAudit } from "./audit.ts";
import { preserveBrokenLog, type PreservedLog } from "./broken-log.ts";
import { foreignLog, tryStampLog, stampLog } from "./store-files.ts";
import { rejectUnusableVersion, upgradeDatabase, readVersion } from "./upgrade.ts";

/** The file in the data folder. */
export const DATABASE_FILE = "berth.sqlite";

/** The databases that this process has open, including those of its threads. */
const openDatabases = new Set<OpenedDatabase>();

export interface OpenedDatabase {
  readonly name: string;
  readonly open: boolean;
}

/**
 * Opens the database of a data folder, creates both if they are missing, and applies missing migrations. `isOpenHere`:
 * another thread of this process has the database open.
 */
export function openDatabase(
  dataDir: string,
  busyMs: number,
  log?: Log,
  isOpenHere = isOpen(join(dataDir, DATABASE_FILE)),
): Database.Database {
  let database: Database.Database | undefined;
  try {
    // The store contains secrets, so no other user may read the folder or the file.
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    restrictAccess(dataDir);
    const file = join(dataDir, DATABASE_FILE);
    // If it is open here, its log has already been checked, and closing the file would release SQLite's locks on it.
    const keptLog = isOpenHere ? undefined : checkLog(dataDir, file);
    database = new Database(file, { timeout: busyMs });
    chmodSync(file, 0o600);
    rejectUnusableVersion(readVersion(database));
    enableLog(database, busyMs);
    // Writers do not wait for the disk: durable writes are flushed separately (`write-ahead-log.ts`).
    database.pragma("synchronous = NORMAL");
    database.pragma("foreign_keys = ON");
    // Removed data may be a secret or belong to a deleted tenant.
    database.pragma("secure_delete = ON");
    upgradeDatabase(database, log);
    if (keptLog) reportBrokenLog(database, keptLog, log);
    // Only after an upgrade, which may sort a long table. From then on, a save needs no temporary files, which a
    // process may be unable to open.
    database.pragma("temp_store = MEMORY");
    startLog(database);
    registerOpened(database);
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
  tryStampLog(database);
  database.close();
}

/**
 * Restricts access to an existing folder, unless it belongs to another user or contains unrelated files. The files that
 * Berth creates in it are only readable by their owner in any case.
 */
function restrictAccess(dataDir: string): void {
  const { mode, uid } = statSync(dataDir);
  if ((mode & 0o077) === 0 || uid !== process.getuid?.()) return;
  if (readdirSync(dataDir).every((file) => OWN_FILES.test(file))) chmodSync(dataDir, 0o700);
}

const OWN_FILES = /^(?:berth\.sqlite|import-|seal|secret|lost\+found$)/;

export function isOpen(file: string): boolean {
  for (const each of openDatabases) if (!each.open) openDatabases.delete(each);
  return Array.from(openDatabases).some(({ name }) => name === file);
}

export function registerOpened(database: OpenedDatabase): void {
  openDatabases.add(database);
}

/**
 * Call it before SQLite opens the database: SQLite accepts any log as the database's own, and silently ignores
 * what follows its readable part.
 */
function checkLog(dataDir: string, file: string): PreservedLog | undefined {
  const reason = foreignLog(file);
  if (reason === undefined) return preserveBrokenLog(file);
  const fix = `put back the right ${DATABASE_FILE}; or restore a backup with "berth restore FILE", which moves the current files aside; or move the other files away, which loses the changes in them`;
  throw new BerthError("store_failed", `in the data folder ${dataDir} ${reason}: ${fix}`);
}

/** Reports a broken log once, and restarts the log. */
function reportBrokenLog(database: Database.Database, { kept, ...broken }: PreservedLog, log: Log | undefined): void {
  const facts = { action: "log-broken", ...broken, kept: basename(kept) };
  appendAllAudit(database, [auditEntry(SERVICE, "service", facts)]);
  log?.error(
    { ...broken, kept },
    "the log of the store was broken, so later writes are missing: check the latest changes, or restore a backup; the original files were preserved",
  );
  tryStampLog(database);
  database.pragma("wal_checkpoint(TRUNCATE)");
}

/** SQLite itself does not wait when several processes create the same file at once. */
function enableLog(database: Database.Database, busyMs: number): void {
  for (const until = performance.now() + busyMs; ;) {
    try {
      database.pragma("journal_mode = WAL");
      return;
    } catch (error) {
      if (!isBusy(error) || performance.now() >= until) throw error;
      Atomics.wait(pause, 0, 0, RETRY_MS);
    }
  }
}

const RETRY_MS = 5;
const pause = new Int32Array(new SharedArrayBuffer(4));

/** Makes the database's first page the first in an empty log. If that fails, later writers get the error. */
function startLog(database: Database.Database): void {
  try {
    const [{ log }] = database.pragma("wal_checkpoint(NOOP)") as [{ log: number }];
    if (log <= 0) stampLog(database);
  } catch (error) {
    if (!/^SQLITE_(BUSY|FULL|IOERR|READONLY)/.test(errorCode(error))) throw error;
  }
}

function errorCode(error: unknown): string {
  return (error as { code?: string }).code ?? "";
}

function isBusy(error: unknown): boolean {
  return errorCode(error) === "SQLITE_BUSY";
}

export const OTHER_FOLDER = "name another folder (--data, BERTH_DATA)";
/** More than SQLite needs to open a database. */
const TRIAL_BYTES = 64 * 1024;

/** Says why a folder cannot be used, and what to do. SQLite does not distinguish a full disk from a broken one. */
export function whyUnusable(folder: string, error: NodeJS.ErrnoException, fix = OTHER_FOLDER): string {
  if (/^SQLITE_(CORRUPT|NOTADB)/.test(errorCode(error))) {
    return `${DATABASE_FILE} is damaged (${error.message}); restore a backup with "berth restore FILE", which preserves the current files`;
  }
  // For a folder that could not be created, the error only says that it is missing.
  const isSpecific = /^E[A-Z]+$/.test(errorCode(error)) && errorCode(error) !== "ENOENT";
  const cause = isSpecific ? error : (findWriteFault(nearestExisting(folder)) ?? error);
  switch (errorCode(cause)) {
    case "ENOSPC":
    case "EDQUOT":
    case "SQLITE_FULL":
      return `its disk is full; free some space, or ${fix}`;
    case "EROFS":
      return `its disk is read-only; mount it writable, or ${fix}`;
    case "EACCES":
    case "EPERM":
      return `${describeOwner(folder)}; make Berth's user its owner (chown -R), or ${fix}`;
    case "ENOTDIR":
    case "EEXIST":
      return `it is a file, or inside of one; ${fix}`;
    case "ENOENT":
      return `it does not exist; create it, or ${fix}`;
    case "EMFILE":
    case "ENFILE":
      return "Berth cannot open more files; raise its limit (ulimit -n)";
    default:
      return error.message;
  }
}

function findWriteFault(folder: string): NodeJS.ErrnoException | undefined {
  const trial = join(folder, `.trial-${process.pid}`);
  try {
    for (const file of [DATABASE_FILE, `${DATABASE_FILE}-wal`, `${DATABASE_FILE}-shm`]) {
      const path = join(folder, file);
      if (statSync(path, { throwIfNoEntry: false })) accessSync(path, constants.R_OK | constants.W_OK);
    }
    writeFileSync(trial, Buffer.alloc(TRIAL_BYTES, 1), { flag: "wx", mode: 0o600 });
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

function describeOwner(folder: string): string {
  const existing = nearestExisting(folder);
  const owner = tryStat(existing)?.uid;
  const subject = existing === folder ? "it" : existing;
  const uid = process.getuid?.();
  if (owner === undefined || owner === uid) return `Berth may not read and write ${subject}`;
  return `${subject} belongs to user ${owner}, but Berth runs as ${uid}`;
}

/** The folder, or its nearest existing parent. */
function nearestExisting(folder: string): string {
  let existing = folder;
  while (!tryStat(existing) && dirname(existing) !== existing) existing = dirname(existing);
  return existing;
}

function tryStat(path: string) {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}
