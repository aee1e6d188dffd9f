import { existsSync, statSync } from "node:fs";
import { chmod, copyFile, mkdir, rename, statfs } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import Database from "#better-sqlite3";
import { headText } from "../audit/chain.ts";
import { entryOf, SERVICE } from "../audit/entry.ts";
import { BerthError } from "../lib/errors.ts";
import { breakText, unreadLog } from "./broken-log.ts";
import { inDraft, publish, sync } from "./draft-file.ts";
import { SqliteAudit } from "./sqlite-audit.ts";
import { DATABASE_FILE, OTHER_FOLDER, upgradeDatabase, whyUnusable } from "./open-database.ts";
import { BESIDE, foreignLog, newStoreId } from "./store-files.ts";
import { verifyDatabase, type Verified } from "./verify-database.ts";

/**
 * Copies of a whole store in one file, made and put back while other processes use the store. What is copied is what
 * stood at one moment. Keys stand beside the database and are in no copy. A store that is damaged is put back, too: its
 * files are set aside as they are, for nothing that was there is ever deleted.
 */

/** All in one step: one that other processes' writes come between would begin again after each of them. */
const ALL_PAGES = 0x7f_ff_ff_ff;

export interface BackupOptions {
  readonly dataDir: string;
  /** Not there yet, unless `replace`. */
  readonly file: string;
  readonly replace?: boolean;
}

/**
 * Writes the store to `file`, which is there whole and verified, or not at all. Rejects with `backup_failed` where there
 * is no store, where the file is there already, and for a store that is damaged. The store's own disk may be full.
 */
export async function backupStore({ dataDir, file, replace = false }: BackupOptions): Promise<Verified> {
  const from = join(dataDir, DATABASE_FILE);
  await inFolder(dataDir, OTHER_FOLDER, async () => {
    const foreign = existsSync(dataDir) ? foreignLog(from) : undefined;
    if (foreign !== undefined) throw new BerthError("backup_failed", `in the data folder ${dataDir} ${foreign}`);
    if (!existsSync(from)) throw new BerthError("backup_failed", `there is no store in ${dataDir}`);
    const broken = unreadLog(from);
    if (!broken) return;
    const remedy = "start Berth, which keeps these files and says what of them it serves";
    throw new BerthError("backup_failed", `in the data folder ${dataDir} ${breakText(from, broken)}: ${remedy}`);
  });
  if (!replace && existsSync(file)) throw new BerthError("backup_failed", `${file} is there already`);
  return inFolder(dirname(file), "write it to another folder", () =>
    inDraft(file, async (draft) => {
      await copyStore(from, draft);
      asOneFile(draft, (database) => database.pragma(`application_id = ${newStoreId()}`));
      const verified = checked(draft, "the copy of the store is damaged, and the store most likely is, too");
      await publish(draft, file);
      return verified;
    }),
  );
}

export interface Restored extends Verified {
  /** Where what stood there before is kept; undefined when nothing did. */
  readonly kept: string | undefined;
  /** Why what is kept are its files as they were and no backup; undefined where it is one. */
  readonly damage: string | undefined;
  /** Of the keys that its secrets are sealed with. */
  readonly keyIds: readonly string[];
}

/**
 * Puts back what `backupStore` wrote. What stood there before is kept: as another backup beside it where that can be
 * made; then the store is replaced in one transaction, and other processes that use it see what was, or what is. Else its
 * files are set aside as they are, and other processes find another file in their place. The audit log of what is
 * restored says where the log that it replaces has ended. Rejects with `backup_failed`, and nothing is changed, for a file
 * that is damaged, no backup, or of a newer Berth.
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
      const verified = checked(draft, file);
      let keyIds: string[] = [];
      asOneFile(draft, (database) => {
        upgradeDatabase(database);
        recordRestore(database, headOf(to));
        keyIds = database.prepare<[], string>("SELECT DISTINCT key_id FROM secret ORDER BY key_id").pluck().all();
      });
      return { ...verified, ...(await replaceStore(dataDir, draft)), keyIds };
    });
  });
}

/** For what is restored, which is there before anything else is touched. What was there is moved where it cannot be copied. */
async function checkRoom(dataDir: string, file: string): Promise<void> {
  // Of one that cannot be read the copy tells.
  const needed = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  const { bavail, bsize } = await statfs(dataDir);
  if (bavail * bsize >= needed) return;
  const missing = `its disk has ${inMiB(bavail * bsize)} left, and what is restored takes ${inMiB(needed)}`;
  throw new BerthError("backup_failed", `in the folder ${dataDir}: ${missing}; make room on it, or ${OTHER_FOLDER}`);
}

function inMiB(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}

/** By the store in `draft`, which is verified. */
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
  // It is another file than the one that was there, whose log is not its own.
  asOneFile(draft, (database) => database.pragma(`application_id = ${newStoreId()}`));
  const aside = await setAside(to, before);
  await publish(draft, to);
  checked(to, "what was restored is damaged");
  return { kept: aside ?? kept, damage };
}

/** In one transaction. */
async function replaceAll(draft: string, to: string): Promise<void> {
  const live = new Database(to, { fileMustExist: true });
  try {
    const id = live.pragma("application_id", { simple: true }) as number;
    asOneFile(draft, (database) => database.pragma(`application_id = ${id}`));
    await copyDatabase(draft, to);
    // Whoever serves has it open, so that it stands in the log alone.
    await sync(`${to}-wal`);
  } finally {
    live.close();
  }
  checked(to, "what was restored is damaged");
}

/**
 * Moves what there is of a store into a folder of its own. The database goes first: what is then left without it is
 * taken for what it is by whoever starts before this has ended. Gives the folder, where there was anything.
 */
async function setAside(databaseFile: string, folder: string): Promise<string | undefined> {
  const files = ["", ...BESIDE].map((suffix) => databaseFile + suffix).filter((file) => existsSync(file));
  if (files.length === 0) return undefined;
  await mkdir(folder, { mode: 0o700 });
  for (const file of files) await rename(file, join(folder, basename(file)));
  await sync(folder);
  await sync(dirname(databaseFile));
  return folder;
}

/** Tells what keeps files from being written in a folder as `backup_failed`. */
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
  new SqliteAudit(database).appendAll([entryOf(SERVICE, "service", { action: "restored", by: "command", replaced })]);
}

/** Null where no log is that could be read. */
function headOf(file: string): string | null {
  let database: Database.Database | undefined;
  try {
    if (!existsSync(file) || foreignLog(file) !== undefined) return null;
    database = new Database(file, { readonly: true });
    const head = new SqliteAudit(database).head();
    return head ? headText(head) : null;
  } catch {
    // It is older than the log, or damaged, which is why it is replaced.
    return null;
  } finally {
    database?.close();
  }
}

/**
 * On a disk that takes nothing, SQLite opens no database that nobody has open: then its files are copied, and opened where
 * they can be. What came between is found when the copy is verified.
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

/** SQLite's online backup: of one moment on the one side, and in one transaction on the other. */
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

/** Nothing of it is in files beside it. */
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
