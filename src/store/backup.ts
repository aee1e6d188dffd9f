import { existsSync } from "node:fs";
import { chmod, copyFile } from "node:fs/promises";
import { join } from "node:path";
import Database from "better-sqlite3";
import { headText } from "../audit/chain.ts";
import { entryOf, SERVICE } from "../audit/entry.ts";
import { BerthError } from "../errors.ts";
import { inDraft, publish } from "./draft-file.ts";
import { flushLog } from "./flush-log.ts";
import { SqliteAudit } from "./sqlite-audit.ts";
import { DATABASE_FILE, upgradeDatabase } from "./open-database.ts";
import { verifyDatabase, type Verified } from "./verify-database.ts";

/**
 * Copies of a whole store in one file, made and put back while other processes use the store. What is copied is what
 * stood at one moment. Keys stand beside the database and are in no copy.
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
 * is no store, where the file is there already, and for a store that is damaged.
 */
export async function backupStore({ dataDir, file, replace = false }: BackupOptions): Promise<Verified> {
  const from = join(dataDir, DATABASE_FILE);
  if (!existsSync(from)) throw new BerthError("backup_failed", `there is no store in ${dataDir}`);
  if (!replace && existsSync(file)) throw new BerthError("backup_failed", `${file} is there already`);
  return inDraft(file, async (draft) => {
    await copyDatabase(from, draft);
    asOneFile(draft);
    const verified = checked(draft, "the copy of the store is damaged, and the store most likely is, too");
    await publish(draft, file);
    return verified;
  });
}

export interface Restored extends Verified {
  /** Where what stood there before is kept; undefined when nothing did. */
  readonly kept: string | undefined;
  /** Of the keys that its secrets are sealed with. */
  readonly keyIds: readonly string[];
}

/**
 * Puts back what `backupStore` wrote, in one transaction: other processes that use the store see what was, or what is.
 * What stood there before is kept as another backup beside it, and the audit log of what is restored says where the log
 * that it replaces has ended. Rejects with `backup_failed`, and nothing is changed, for
 * a file that is damaged, no backup, or of a newer Berth.
 */
export async function restoreStore({ dataDir, file }: Omit<BackupOptions, "replace">): Promise<Restored> {
  const to = join(dataDir, DATABASE_FILE);
  return inDraft(to, async (draft) => {
    await copyFile(file, draft).catch((error: unknown) => {
      throw new BerthError("backup_failed", `${file} cannot be read: ${(error as Error).message}`, { cause: error });
    });
    await chmod(draft, 0o600);
    const verified = checked(draft, file);
    let keyIds: string[] = [];
    asOneFile(draft, (database) => {
      upgradeDatabase(database);
      recordRestore(database, headOf(to));
      keyIds = database.prepare<[], string>("SELECT DISTINCT key_id FROM secret ORDER BY key_id").pluck().all();
    });
    if (!existsSync(to)) {
      await publish(draft, to);
      return { ...verified, kept: undefined, keyIds };
    }
    const kept = join(dataDir, `before-restore-${new Date().toISOString().replaceAll(":", "-")}.sqlite`);
    await backupStore({ dataDir, file: kept });
    await copyDatabase(draft, to);
    // Whoever serves has it open, so that it stands in the log alone.
    await flushLog(to);
    checked(to, "what was restored is damaged");
    return { ...verified, kept, keyIds };
  });
}

function recordRestore(database: Database.Database, replaced: string | null): void {
  new SqliteAudit(database).appendAll([entryOf(SERVICE, "service", { action: "restored", by: "command", replaced })]);
}

/** Null where no log is that could be read. */
function headOf(file: string): string | null {
  if (!existsSync(file)) return null;
  const database = new Database(file, { readonly: true });
  try {
    const head = new SqliteAudit(database).head();
    return head ? headText(head) : null;
  } catch {
    // It is older than the log, or damaged, which is why it is replaced.
    return null;
  } finally {
    database.close();
  }
}

/** SQLite's online backup: of one moment on the one side, and in one transaction on the other. */
async function copyDatabase(from: string, to: string): Promise<void> {
  const database = new Database(from, { readonly: true, fileMustExist: true });
  try {
    await database.backup(to, { progress: () => ALL_PAGES });
  } catch (error) {
    throw new BerthError("backup_failed", (error as Error).message, { cause: error });
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
function asOneFile(file: string, change: (database: Database.Database) => void = () => {}): void {
  const database = new Database(file);
  try {
    change(database);
    database.pragma("journal_mode = DELETE");
  } finally {
    database.close();
  }
}
