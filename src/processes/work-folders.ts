import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  lstatSync,
  mkdtempSync,
  openSync,
  rmdirSync,
  statSync,
} from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type Database from "#better-sqlite3";
import { lockFile } from "../lib/file-lock.ts";
import { listOr } from "./process-tree.ts";
import type { User } from "./sandbox.ts";

/** Makes a new, empty folder whose name begins with `prefix`. */
export type MakeFolder = (prefix: string) => string;

const PREFIX = "berth-work-";
const LOCK = "lock";
const ATTEMPTS_MAX = 5;
/** The most folders of killed processes that one start removes; the next one removes more. */
const REMOVED_MAX = 100;

/** For use without `WorkFolders`: the caller removes the folder, unless it is killed. */
export const makeTemporary: MakeFolder = (prefix) => mkdtempSync(join(tmpdir(), `berth-${prefix}`));

/** Lets another user enter a folder that was made here, and work in it. Throws where a folder above lets nobody in. */
export function giveFolder(folder: string, { uid, gid }: User): void {
  chownSync(folder, uid, gid);
  const parent = dirname(folder);
  const { mode, uid: owner } = statSync(parent);
  if (parent !== tmpdir() && owner === process.getuid?.()) chmodSync(parent, mode | ENTER);
  for (let [above, below] = [parent, folder]; above !== below; [above, below] = [dirname(above), above]) {
    const { mode } = statSync(above);
    if ((mode & ENTER_OTHERS) === 0) throw new Error(`${above} does not let the user ${uid} in`);
  }
}

const ENTER = 0o011;
const ENTER_OTHERS = 0o001;

/**
 * The temporary folders of one process: all stand in one, which holds a lock for as long as the process lives. The next
 * process removes what killed processes have left; folders of running ones and of other users stay.
 */
export class WorkFolders {
  readonly #parent = tmpdir();
  readonly #removing: Promise<void>;
  #own: { readonly path: string; readonly lock: Database.Database } | undefined;
  #isClosed = false;

  constructor() {
    this.#removing = this.#removeLeft();
  }

  /** The first call makes the common folder: a process that needs no folders needs no place for it. */
  readonly make: MakeFolder = (prefix) => {
    // A cleanup of the machine may have removed it.
    if (this.#own && !existsSync(join(this.#own.path, LOCK))) this.#leave();
    this.#own ??= this.#open();
    return mkdtempSync(join(this.#own.path, prefix));
  };

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#removing;
    if (this.#own) await removeWithLock(this.#own.path).catch(() => {});
    this.#leave();
  }

  #leave(): void {
    this.#own?.lock.close();
    this.#own = undefined;
  }

  #open(): { path: string; lock: Database.Database } {
    for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
      const path = mkdtempSync(join(this.#parent, PREFIX));
      // SQLite does not report a lack of descriptors, and a folder without a lock would stay for ever.
      refuseWithoutDescriptor(path);
      const lock = lockFile(join(path, LOCK));
      // A cleanup of leftovers may have removed the file in the moment before the lock.
      if (lock && existsSync(join(path, LOCK))) return { path, lock };
      lock?.close();
    }
    throw new Error(`no folder can be kept in ${this.#parent}`);
  }

  async #removeLeft(): Promise<void> {
    let removed = 0;
    for (const name of listOr(this.#parent)) {
      if (this.#isClosed || removed >= REMOVED_MAX) return;
      if (!name.startsWith(PREFIX)) continue;
      const path = join(this.#parent, name);
      try {
        // Without a lock its owner is unknown.
        if (!isOwn(path) || !existsSync(join(path, LOCK))) continue;
        const lock = lockFile(join(path, LOCK));
        if (!lock) continue;
        removed++;
        await removeWithLock(path).finally(() => lock.close());
      } catch {
        // A folder that cannot be removed does no harm.
      }
    }
  }
}

function refuseWithoutDescriptor(folder: string): void {
  try {
    closeSync(openSync(folder, "r"));
  } catch (error) {
    rmdirSync(folder);
    throw error;
  }
}

/** Called by the holder of the lock, which goes last: if this is interrupted, the next process continues. */
async function removeWithLock(path: string): Promise<void> {
  const all = { recursive: true, force: true, maxRetries: 2 };
  for (const name of await readdir(path)) if (name !== LOCK) await rm(join(path, name), all);
  // With it goes a folder that was made meanwhile: without the lock it would stay.
  await rm(path, all);
}

/** Where all users may write, others may put anything: a link, say, that leads to a folder of this user's. */
function isOwn(path: string): boolean {
  const folder = lstatSync(path);
  return folder.isDirectory() && folder.uid === process.getuid?.();
}
