import { existsSync, statSync } from "node:fs";
import { chmod, copyFile, mkdir, rename, statfs } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import Database from "#better-sqlite3";
import { entryOf, SERVICE } from "../../audit/audit-entry.ts";
import { headText } from "../../audit/chain.ts";
import { faultText, verifyLog } from "../../audit/verify.ts";
import { inDraft, publish, sync } from "../../lib/draft-file.ts";
import { BerthError } from "../../lib/errors.ts";
import { BESIDE } from "../../lib/file-lock.ts";
import { soundObject } from "../../lib/json.ts";
import { appendAllAudit, auditHead, readableLinks } from "./audit.ts";
import { breakText, unreadLog } from "./broken-log.ts";
import { appendChecksum, takeChecksum } from "./checksum.ts";
import { closeDatabase, DATABASE_FILE, OTHER_FOLDER, whyUnusable } from "./open-database.ts";
import { foreignLog, newStoreId } from "./store-files.ts";
import { SCHEMA_VERSION, upgradeDatabase, versionOf } from "./upgrade.ts";
import { verifyDatabase, type Verified } from "./verify-database.ts";

/**
 * Copies a whole store into one file and restores it, while other processes use the store. A copy shows one moment.
 * Keys stand beside the database and are in no copy. A damaged store can be replaced, too: its files are set aside as
 * they are, since nothing that was there is ever deleted.
 */

/** Copies everything in one step: a copy in several steps would start over after each write of another process. */
const ALL_PAGES = 0x7f_ff_ff_ff;

export interface BackupOptions {
  readonly dataDir: string;
  /** Must not exist yet, unless `replace`. */
  readonly file: string;
  readonly replace?: boolean;
  /** When the copy is to be deleted, in milliseconds since the epoch: it holds what is deleted later until then. */
  readonly deleteBy?: number | undefined;
}

/**
 * Writes the store to `file`, which then is there whole and verified, or not at all. Rejects with `backup_failed` where
 * there is no store, where the file exists already, and for a damaged store. The store's own disk may be full.
 */
export async function backupStore(options: BackupOptions): Promise<Verified> {
  const { dataDir, file, replace = false, deleteBy } = options;
  const from = join(dataDir, DATABASE_FILE);
  await inFolder(dataDir, OTHER_FOLDER, async () => {
    const foreign = existsSync(dataDir) ? foreignLog(from) : undefined;
    if (foreign !== undefined) throw new BerthError("backup_failed", `in the data folder ${dataDir} ${foreign}`);
    if (!existsSync(from)) throw new BerthError("backup_failed", `there is no store in ${dataDir}`);
    const broken = unreadLog(from);
    if (!broken) return;
    const remedy = "start Berth, which keeps these files and reports what it can serve";
    throw new BerthError("backup_failed", `in the data folder ${dataDir} ${breakText(from, broken)}: ${remedy}`);
  });
  if (!replace && existsSync(file)) throw new BerthError("backup_failed", `${file} already exists`);
  return inFolder(dirname(file), "write it to another folder", () =>
    inDraft(file, async (draft) => {
      await copyStore(from, draft);
      asOneFile(draft, (database) => {
        database.pragma(`application_id = ${newStoreId()}`);
        // `checked` reports any other version.
        if (versionOf(database) !== SCHEMA_VERSION) return;
        forgetNodes(database);
        noteCopy(database, { madeAt: Date.now(), ...(deleteBy !== undefined && { deleteBy }) });
      });
      const verified = checked(draft, STORE_DAMAGED);
      await checkAudit(draft, STORE_DAMAGED);
      await appendChecksum(draft);
      await publish(draft, file);
      return verified;
    }),
  );
}

const STORE_DAMAGED =
  "the copy of the store is damaged, and the store is probably damaged, too: restore an earlier backup, or stop Berth and copy its data folder";

export interface Restored extends Verified {
  /** Where the previous store is kept; undefined if there was none. */
  readonly kept: string | undefined;
  /** Why its files are kept as they were instead of as a backup; undefined where they are a backup. */
  readonly damage: string | undefined;
  /** The ids of the keys that its secrets are sealed with. */
  readonly keyIds: readonly string[];
  /** When the copy was made, and when it was to be deleted, as far as it says. */
  readonly copy: Copy | undefined;
  /** Tenants of the copy that the replaced store did not have any more. */
  readonly broughtBack: readonly string[];
  readonly hasChecksum: boolean;
}

/**
 * Restores what `backupStore` wrote. The previous store is kept: as another backup beside it where one can be made;
 * then the store is replaced in one transaction, and other processes see either the old or the new one. Otherwise its
 * files are set aside as they are, and other processes find another file in their place. The restored audit log says
 * where the log that it replaces has ended. Rejects with `backup_failed`, and changes nothing, for a file that is
 * damaged, no backup, or of a version that this Berth cannot upgrade.
 */
export async function restoreStore({ dataDir, file }: Omit<BackupOptions, "replace">): Promise<Restored> {
  const to = join(dataDir, DATABASE_FILE);
  return inFolder(dataDir, OTHER_FOLDER, async () => {
    await mkdir(dataDir, { recursive: true, mode: 0o700 });
    await checkRoom(dataDir, file);
    return inDraft(to, async (draft) => {
      await copyFile(file, draft).catch((error: NodeJS.ErrnoException) => {
        if (error.code === "ENOSPC" || error.code === "EDQUOT") throw error;
        throw new BerthError("backup_failed", `${file} cannot be read: ${error.message}`, { cause: error });
      });
      await chmod(draft, 0o600);
      const checksum = await takeChecksum(draft);
      const what = checksum === "wrong" ? `${file} was changed after it was written (its checksum differs)` : file;
      const verified = checked(draft, what);
      asOneFile(draft, upgradeDatabase);
      await checkAudit(draft, what);
      if (checksum === "wrong") throw new BerthError("backup_failed", `${what}: use another backup`);
      let keyIds: string[] = [];
      let copy: Copy | undefined;
      let broughtBack: string[] = [];
      asOneFile(draft, (database) => {
        recordRestore(database, headOf(to));
        copy = takeCopyNote(database);
        broughtBack = tenantsMissingIn(to, database);
        keyIds = database.prepare<[], string>("SELECT DISTINCT key_id FROM secret ORDER BY key_id").pluck().all();
      });
      const hasChecksum = checksum === "right";
      return { ...verified, ...(await replaceStore(dataDir, draft)), keyIds, copy, broughtBack, hasChecksum };
    });
  });
}

/**
 * Checks the room for the restored store, which is written before anything else is touched. The previous store is moved
 * where it cannot be copied.
 */
async function checkRoom(dataDir: string, file: string): Promise<void> {
  // If the file cannot be read, the copy reports it.
  const needed = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  const { bavail, bsize } = await statfs(dataDir);
  if (bavail * bsize >= needed) return;
  const missing = `its disk has ${inMiB(bavail * bsize)} left, and the restored store takes ${inMiB(needed)}`;
  throw new BerthError("backup_failed", `in the folder ${dataDir}: ${missing}; free some space, or ${OTHER_FOLDER}`);
}

function inMiB(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}

/** Replaces the store by the one in `draft`, which is verified. */
async function replaceStore(dataDir: string, draft: string): Promise<Pick<Restored, "kept" | "damage">> {
  const to = join(dataDir, DATABASE_FILE);
  const before = join(dataDir, `before-restore-${new Date().toISOString().replaceAll(":", "-")}`);
  let damage: string | undefined;
  let kept: string | undefined;
  if (existsSync(to)) {
    const backup = `${before}.sqlite`;
    try {
      await backupStore({ dataDir, file: backup });
      kept = backup;
      await replaceAll(draft, to);
      return { kept, damage };
    } catch (error) {
      damage = (error as Error).message;
    }
  }
  // The file is not the previous one, so the log of that one is not its log.
  asOneFile(draft, (database) => database.pragma(`application_id = ${newStoreId()}`));
  const aside = await setAside(to, before);
  await publish(draft, to);
  checked(to, "the restored store is damaged");
  return { kept: aside ?? kept, damage };
}

/** Replaces everything in one transaction. */
async function replaceAll(draft: string, to: string): Promise<void> {
  const live = new Database(to, { fileMustExist: true });
  try {
    const id = live.pragma("application_id", { simple: true }) as number;
    asOneFile(draft, (database) => database.pragma(`application_id = ${id}`));
    await copyDatabase(draft, to);
    // The serving process has the database open, so the change stands in the log alone.
    await sync(`${to}-wal`);
  } finally {
    closeDatabase(live);
  }
  checked(to, "the restored store is damaged");
}

/**
 * Moves the files of a store into a folder of its own. The database goes first: any process that starts before this has
 * ended then recognizes the rest as leftovers. Returns the folder, if there were any files.
 */
async function setAside(databaseFile: string, folder: string): Promise<string | undefined> {
  const files = ["", ...BESIDE].map((suffix) => databaseFile + suffix).filter((file) => existsSync(file));
  if (files.length === 0) return undefined;
  await mkdir(folder, { mode: 0o700 });
  for (const file of files) {
    await rename(file, join(folder, basename(file))).catch((error: NodeJS.ErrnoException) => {
      // A process that closes the store checkpoints its log, and removes it.
      if (error.code !== "ENOENT" || file === databaseFile) throw error;
    });
  }
  await sync(folder);
  await sync(dirname(databaseFile));
  return folder;
}

/** Turns an error of writing to a folder into `backup_failed`. */
async function inFolder<T>(folder: string, remedy: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof BerthError) throw error;
    const reason = whyUnusable(folder, error as NodeJS.ErrnoException, remedy);
    throw new BerthError("backup_failed", `in the folder ${folder}: ${reason}`, { cause: error });
  }
}

function recordRestore(database: Database.Database, replaced: string | null): void {
  appendAllAudit(database, [entryOf(SERVICE, "service", { action: "restored", by: "command", replaced })]);
}

/** The note that a copy has of itself: a record in it that no tenant has, and that the store has not. */
export interface Copy {
  readonly madeAt: number;
  readonly deleteBy?: number;
}

/** Nodes and their letters are no part of a copy. */
function forgetNodes(database: Database.Database): void {
  for (const table of ["node", "letter", "lease"]) database.exec(`DELETE FROM ${table}`);
}

function noteCopy(database: Database.Database, copy: Copy): void {
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
  const { madeAt, deleteBy } = soundObject(text ?? "") ?? {};
  if (typeof madeAt !== "number") return undefined;
  return typeof deleteBy === "number" ? { madeAt, deleteBy } : { madeAt };
}

/** None where there is no store, or one that cannot be read. */
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

/** The last anchor; null where there is no readable log. Nothing is written: the files may have to be kept as they are. */
function headOf(file: string): string | null {
  let database: Database.Database | undefined;
  try {
    if (!existsSync(file) || foreignLog(file) !== undefined) return null;
    database = new Database(file, { readonly: true });
    const head = auditHead(database);
    return head ? headText(head) : null;
  } catch {
    // The store is of another version or damaged, which is why it is replaced.
    return null;
  } finally {
    database?.close();
  }
}

/**
 * On a full disk, SQLite cannot open a database that nobody has open: its files are then copied and opened elsewhere.
 * Writes in between are found when the copy is verified.
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

function checked(file: string, what: string): Verified {
  const verified = verifyDatabase(file);
  const { problems } = verified;
  if (problems.length > 0)
    throw new BerthError("backup_failed", `${what}: ${problems.join("; ")}`, { data: { problems } });
  return verified;
}

/** Throws `backup_failed` with the first fault of the audit log. */
async function checkAudit(file: string, what: string): Promise<void> {
  const database = new Database(file, { readonly: true });
  try {
    const { fault } = await verifyLog(readableLinks(database));
    if (fault) throw new BerthError("backup_failed", `${what}: its audit log does not fit at ${faultText(fault)}`);
  } finally {
    database.close();
  }
}

/** Leaves nothing of the database in files beside it. */
function asOneFile(file: string, change: (database: Database.Database) => void): void {
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
