import { existsSync, statSync } from "node:fs";
import { chmod, copyFile, mkdir, rename, statfs } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import Database from "#better-sqlite3";
import { auditEntry, SERVICE } from "../../audit/audit-entry.ts";
import { formatHead } from "../../audit/chain.ts";
import { formatFault, verifyLog } from "../../audit/verify.ts";
import { withDraftFile, publish, sync } from "../../lib/draft-file.ts";
import { BerthError } from "../../lib/errors.ts";
import { SIDECAR_SUFFIXES } from "../../lib/file-lock.ts";
import { tryParseObject } from "../../lib/json.ts";
import { appendAllAudit, auditHead, readableLinks } from "./audit.ts";
import { describeBreak, findUnreadLog } from "./broken-log.ts";
import { appendChecksum, takeChecksum } from "./checksum.ts";
import { closeDatabase, DATABASE_FILE, OTHER_FOLDER, whyUnusable } from "./open-database.ts";
import { foreignLog, newStoreId } from "./store-files.ts";
import { SCHEMA_VERSION, upgradeDatabase, readVersion } from "./upgrade.ts";
import { verifyDatabase, type VerifiedDatabase } from "./verify-database.ts";

/**
 * Backs up a whole store into one file and restores it, while other processes use the store. A backup is consistent.
 * Keys are files next to the database and in no backup. A damaged store can be replaced as well: its files are moved
 * aside unchanged, as nothing is ever deleted.
 */

/** Copies everything in one step: a copy in several steps would start over after each write of another process. */
const ALL_PAGES = 0x7f_ff_ff_ff;

export interface BackupOptions {
  readonly dataDir: string;
  /** Must not exist yet, unless `replace`. */
  readonly file: string;
  readonly replace?: boolean;
  /**
   * When the backup is due for deletion, in milliseconds since the epoch: until then, it contains data deleted later.
   */
  readonly deleteBy?: number | undefined;
}

/**
 * Writes the store to `file`, which exists only once it is complete and verified. Rejects with `backup_failed` if there
 * is no store, the file exists, or the store is damaged. The store's own disk may be full.
 */
export async function backupStore(options: BackupOptions): Promise<VerifiedDatabase> {
  const { dataDir, file, replace = false, deleteBy } = options;
  const from = join(dataDir, DATABASE_FILE);
  await inFolder(dataDir, OTHER_FOLDER, async () => {
    const foreign = existsSync(dataDir) ? foreignLog(from) : undefined;
    if (foreign !== undefined) throw new BerthError("backup_failed", `in the data folder ${dataDir} ${foreign}`);
    if (!existsSync(from)) throw new BerthError("backup_failed", `there is no store in ${dataDir}`);
    const broken = findUnreadLog(from);
    if (!broken) return;
    const fix = "start Berth, which preserves these files and reports what it can serve";
    throw new BerthError("backup_failed", `in the data folder ${dataDir} ${describeBreak(from, broken)}: ${fix}`);
  });
  if (!replace && existsSync(file)) throw new BerthError("backup_failed", `${file} already exists`);
  return inFolder(dirname(file), "write it to another folder", () =>
    withDraftFile(file, async (draft) => {
      await copyStore(from, draft);
      changeAsSingleFile(draft, (database) => {
        database.pragma(`application_id = ${newStoreId()}`);
        // `verifyCopy` reports any other version.
        if (readVersion(database) !== SCHEMA_VERSION) return;
        removeNodes(database);
        writeCopyNote(database, { madeAt: Date.now(), ...(deleteBy !== undefined && { deleteBy }) });
      });
      const verified = verifyCopy(draft, STORE_DAMAGED);
      await checkAudit(draft, STORE_DAMAGED);
      await appendChecksum(draft);
      await publish(draft, file);
      return verified;
    }),
  );
}

const STORE_DAMAGED =
  "the copy of the store is damaged, and probably the store as well: restore an earlier backup, or stop Berth and copy its data folder";

export interface Restored extends VerifiedDatabase {
  /** Where the previous store is; undefined if there was none. */
  readonly kept: string | undefined;
  /** Why the previous store is in its original files rather than in a backup; undefined if it is in a backup. */
  readonly damage: string | undefined;
  /** The ids of the keys with which its secrets are encrypted. */
  readonly keyIds: readonly string[];
  /** When the backup was made and when it was due for deletion, if it contains that. */
  readonly copy: Copy | undefined;
  /** Tenants in the backup that the replaced store did not have. */
  readonly broughtBack: readonly string[];
  readonly hasChecksum: boolean;
}

/**
 * Restores what `backupStore` wrote. If possible, the previous store is backed up next to it, and then replaced in one
 * transaction, so that other processes see either the old or the new one. Otherwise, its files are moved aside
 * unchanged, and other processes find another file in their place. The restored audit log records where the log that it
 * replaces ended. Rejects with `backup_failed`, and changes nothing, for a file that is damaged, not a backup, or of a
 * version that this Berth cannot upgrade.
 */
export async function restoreStore({ dataDir, file }: Omit<BackupOptions, "replace">): Promise<Restored> {
  const to = join(dataDir, DATABASE_FILE);
  return inFolder(dataDir, OTHER_FOLDER, async () => {
    await mkdir(dataDir, { recursive: true, mode: 0o700 });
    await checkFreeSpace(dataDir, file);
    return withDraftFile(to, async (draft) => {
      await copyFile(file, draft).catch((error: NodeJS.ErrnoException) => {
        if (error.code === "ENOSPC" || error.code === "EDQUOT") throw error;
        throw new BerthError("backup_failed", `${file} cannot be read: ${error.message}`, { cause: error });
      });
      await chmod(draft, 0o600);
      const checksum = await takeChecksum(draft);
      const subject = checksum === "wrong" ? `${file} was changed after it was written (its checksum differs)` : file;
      const verified = verifyCopy(draft, subject);
      changeAsSingleFile(draft, upgradeDatabase);
      await checkAudit(draft, subject);
      if (checksum === "wrong") throw new BerthError("backup_failed", `${subject}: use another backup`);
      let keyIds: string[] = [];
      let copy: Copy | undefined;
      let broughtBack: string[] = [];
      changeAsSingleFile(draft, (database) => {
        recordRestore(database, readHeadText(to));
        copy = takeCopyNote(database);
        broughtBack = tenantsMissingIn(to, database);
        keyIds = database.prepare<[], string>("SELECT DISTINCT key_id FROM secret ORDER BY key_id").pluck().all();
      });
      const hasChecksum = checksum === "right";
      return { ...verified, ...(await replaceStore(dataDir, draft)), keyIds, copy, broughtBack, hasChecksum };
    });
  });
}

/** Checks the disk space for the restored store. The previous store is moved if it cannot be copied. */
async function checkFreeSpace(dataDir: string, file: string): Promise<void> {
  // If the file cannot be read, the copy reports it.
  const needed = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  const { bavail, bsize } = await statfs(dataDir);
  if (bavail * bsize >= needed) return;
  const missing = `its disk has ${inMiB(bavail * bsize)} left, but the restored store needs ${inMiB(needed)}`;
  throw new BerthError("backup_failed", `in the folder ${dataDir}: ${missing}; free some space, or ${OTHER_FOLDER}`);
}

function inMiB(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}

/** Replaces the store by the verified one in `draft`. */
async function replaceStore(dataDir: string, draft: string): Promise<Pick<Restored, "kept" | "damage">> {
  const to = join(dataDir, DATABASE_FILE);
  const basePath = join(dataDir, `before-restore-${new Date().toISOString().replaceAll(":", "-")}`);
  let damage: string | undefined;
  let keptAt: string | undefined;
  if (existsSync(to)) {
    const backup = `${basePath}.sqlite`;
    try {
      await backupStore({ dataDir, file: backup });
      keptAt = backup;
      await replaceAll(draft, to);
      return { kept: keptAt, damage };
    } catch (error) {
      damage = (error as Error).message;
    }
  }
  // The WAL of the previous database does not belong to the new one.
  changeAsSingleFile(draft, (database) => database.pragma(`application_id = ${newStoreId()}`));
  const movedTo = await moveAside(to, basePath);
  await publish(draft, to);
  verifyCopy(to, "the restored store is damaged");
  return { kept: movedTo ?? keptAt, damage };
}

/** Replaces everything in one transaction. */
async function replaceAll(draft: string, to: string): Promise<void> {
  const live = new Database(to, { fileMustExist: true });
  try {
    const id = live.pragma("application_id", { simple: true }) as number;
    changeAsSingleFile(draft, (database) => database.pragma(`application_id = ${id}`));
    await copyDatabase(draft, to);
    // The serving process has the database open, so the change is only in the WAL.
    await sync(`${to}-wal`);
  } finally {
    closeDatabase(live);
  }
  verifyCopy(to, "the restored store is damaged");
}

/**
 * Moves the files of a store into a folder of their own. Starts with the database, so that a process that starts
 * meanwhile recognizes the rest as leftovers. Returns the folder, or undefined if there were no files.
 */
async function moveAside(databaseFile: string, folder: string): Promise<string | undefined> {
  const files = ["", ...SIDECAR_SUFFIXES].map((suffix) => databaseFile + suffix).filter((file) => existsSync(file));
  if (files.length === 0) return undefined;
  await mkdir(folder, { mode: 0o700 });
  for (const file of files) {
    await rename(file, join(folder, basename(file))).catch((error: NodeJS.ErrnoException) => {
      // A process that closes the store checkpoints and removes its log.
      if (error.code !== "ENOENT" || file === databaseFile) throw error;
    });
  }
  await sync(folder);
  await sync(dirname(databaseFile));
  return folder;
}

/** Turns an error of writing to a folder into `backup_failed`. */
async function inFolder<T>(folder: string, fix: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof BerthError) throw error;
    const reason = whyUnusable(folder, error as NodeJS.ErrnoException, fix);
    throw new BerthError("backup_failed", `in the folder ${folder}: ${reason}`, { cause: error });
  }
}

function recordRestore(database: Database.Database, replaced: string | null): void {
  appendAllAudit(database, [auditEntry(SERVICE, "service", { action: "restored", by: "command", replaced })]);
}

/** The metadata of a backup: a record in it that belongs to no tenant and is not in the store. */
export interface Copy {
  readonly madeAt: number;
  readonly deleteBy?: number;
}

/** A backup contains no nodes and messages. */
function removeNodes(database: Database.Database): void {
  for (const table of ["node", "letter", "lease"]) database.exec(`DELETE FROM ${table}`);
}

function writeCopyNote(database: Database.Database, copy: Copy): void {
  database
    .prepare(
      "INSERT OR REPLACE INTO record (tenant, kind, key, revision, value, expires_at) VALUES ('', 'copy', '', 1, ?, ?)",
    )
    .run(JSON.stringify(copy), NEVER);
}

const NEVER = Number.MAX_SAFE_INTEGER;

function takeCopyNote(database: Database.Database): Copy | undefined {
  const text = database
    .prepare<[], string>("DELETE FROM record WHERE tenant = '' AND kind = 'copy' RETURNING value")
    .pluck()
    .get();
  const { madeAt, deleteBy } = tryParseObject(text ?? "") ?? {};
  if (typeof madeAt !== "number") return undefined;
  return typeof deleteBy === "number" ? { madeAt, deleteBy } : { madeAt };
}

/** Returns an empty list if there is no readable store. */
function tenantsMissingIn(file: string, restored: Database.Database): string[] {
  const sql = "SELECT name FROM tenant ORDER BY name";
  let database: Database.Database | undefined;
  try {
    if (!existsSync(file) || foreignLog(file) !== undefined) return [];
    database = new Database(file, { readonly: true });
    const present = new Set(database.prepare<[], string>(sql).pluck().all());
    return restored
      .prepare<[], string>(sql)
      .pluck()
      .all()
      .filter((name) => !present.has(name));
  } catch {
    return [];
  } finally {
    database?.close();
  }
}

/** The last anchor; null if there is no readable log. Writes nothing, as the files may have to be preserved. */
function readHeadText(file: string): string | null {
  let database: Database.Database | undefined;
  try {
    if (!existsSync(file) || foreignLog(file) !== undefined) return null;
    database = new Database(file, { readonly: true });
    const head = auditHead(database);
    return head ? formatHead(head) : null;
  } catch {
    // The store is of another version or damaged, which is why it is replaced.
    return null;
  } finally {
    database?.close();
  }
}

/**
 * On a full disk, SQLite cannot open a database that no process has open. Its files are then copied and opened
 * elsewhere. The verification of the copy detects concurrent writes.
 */
async function copyStore(from: string, to: string): Promise<void> {
  try {
    await copyDatabase(from, to);
  } catch (error) {
    if (!/^SQLITE_(CANTOPEN|IOERR|READONLY|FULL)/.test((error as { code?: string }).code ?? "")) {
      throw new BerthError("backup_failed", `the store cannot be read: ${(error as Error).message}`, { cause: error });
    }
    await copyFile(from, to);
    if (existsSync(`${from}-wal`)) await copyFile(`${from}-wal`, `${to}-wal`);
  }
}

/** SQLite's online backup: it reads one moment and writes in one transaction. */
async function copyDatabase(from: string, to: string): Promise<void> {
  const database = new Database(from, { readonly: true, fileMustExist: true });
  try {
    await database.backup(to, { progress: () => ALL_PAGES });
  } finally {
    database.close();
  }
}

function verifyCopy(file: string, subject: string): VerifiedDatabase {
  const verified = verifyDatabase(file);
  const { problems } = verified;
  if (problems.length > 0)
    throw new BerthError("backup_failed", `${subject}: ${problems.join("; ")}`, { data: { problems } });
  return verified;
}

/** Throws `backup_failed` with the first fault of the audit log. */
async function checkAudit(file: string, subject: string): Promise<void> {
  const database = new Database(file, { readonly: true });
  try {
    const { fault } = await verifyLog(readableLinks(database));
    if (fault) throw new BerthError("backup_failed", `${subject}: its audit log is invalid at ${formatFault(fault)}`);
  } finally {
    database.close();
  }
}

/** Applies a change and leaves the whole database in a single file. */
function changeAsSingleFile(file: string, change: (database: Database.Database) => void): void {
  const database = new Database(file);
  try {
    change(database);
    database.pragma("journal_mode = DELETE");
  } catch (error) {
    if (/^SQLITE_(CORRUPT|NOTADB)/.test((error as { code?: string }).code ?? ""))
      throw new BerthError("backup_failed", `the store is damaged: ${(error as Error).message}`, { cause: error });
    throw error;
  } finally {
    database.close();
  }
}
