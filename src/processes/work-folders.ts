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
import { listIfReadable } from "./process-tree.ts";
import type { User } from "./sandbox.ts";

/** Creates a new, empty folder whose name begins with `prefix`. */
export type MakeFolder = (prefix: string) => string;

const PREFIX = "berth-work-";
const LOCK = "lock";
const ATTEMPTS_MAX = 5;
/** The most folders of killed processes that one start removes; the next start continues. */
const REMOVED_MAX = 100;

/** For use without `WorkFolders`: the caller removes the folder, unless it is killed. */
export const makeTemporary: MakeFolder = (prefix) => mkdtempSync(join(tmpdir(), `berth-${prefix}`));

/** Lets another user use a folder that was created here. Throws if that user cannot enter a folder above it. */
export function grantFolder(folder: string, { uid, gid }: User): void {
  chownSync(folder, uid, gid);
  const parent = dirname(folder);
  const { mode, uid: owner } = statSync(parent);
  if (parent !== tmpdir() && owner === process.getuid?.()) chmodSync(parent, mode | ENTER);
  for (let [above, below] = [parent, folder]; above !== below; [above, below] = [dirname(above), above]) {
    const { mode } = statSync(above);
    if ((mode & ENTER_OTHERS) === 0) throw new Error(`${above} cannot be entered by the user ${uid}`);
  }
}

const ENTER = 0o011;
const ENTER_OTHERS = 0o001;

/**
 * The temporary folders of one process, all in one parent folder that is locked as long as the process lives. The next
 * process removes those of killed processes; folders of running processes and of other users remain.
 */
export class WorkFolders {
  readonly #parent = tmpdir();
  readonly #cleanup: Promise<void>;
  #own: { readonly path: string; readonly lock: Database.Database } | undefined;
  #isClosed = false;

  constructor() {
    this.#cleanup = this.#removeOrphans();
  }

  /** The first call creates the parent folder: a process that needs no folders has none. */
  readonly make: MakeFolder = (prefix) => {
    // A cleanup of temporary files may have removed it.
    if (this.#own && !existsSync(join(this.#own.path, LOCK))) this.#release();
    this.#own ??= this.#open();
    return mkdtempSync(join(this.#own.path, prefix));
  };

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#cleanup;
    if (this.#own) await removeWithLock(this.#own.path).catch(() => {});
    this.#release();
  }

  #release(): void {
    this.#own?.lock.close();
    this.#own = undefined;
  }

  #open(): { path: string; lock: Database.Database } {
    for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
      const path = mkdtempSync(join(this.#parent, PREFIX));
      // SQLite does not report a lack of descriptors, and a folder without a lock would never be removed.
      refuseWithoutDescriptor(path);
      const lock = lockFile(join(path, LOCK));
      // The cleanup of another process may have removed the file just before it was locked.
      if (lock && existsSync(join(path, LOCK))) return { path, lock };
      lock?.close();
    }
    throw new Error(`no work folder can be created in ${this.#parent}`);
  }

  async #removeOrphans(): Promise<void> {
    let removed = 0;
    for (const name of listIfReadable(this.#parent)) {
      if (this.#isClosed || removed >= REMOVED_MAX) return;
      if (!name.startsWith(PREFIX)) continue;
      const path = join(this.#parent, name);
      try {
        // Without a lock, its owner is unknown.
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

/** Called by the holder of the lock, which is removed last: if this is interrupted, the next process continues. */
async function removeWithLock(path: string): Promise<void> {
  const all = { recursive: true, force: true, maxRetries: 2 };
  for (const name of await readdir(path)) if (name !== LOCK) await rm(join(path, name), all);
  // Includes folders created meanwhile, which would never be removed without the lock.
  await rm(path, all);
}

/** Other users can put anything into a shared folder, such as a link to a folder of this user. */
function isOwn(path: string): boolean {
  const folder = lstatSync(path);
  return folder.isDirectory() && folder.uid === process.getuid?.();
}
