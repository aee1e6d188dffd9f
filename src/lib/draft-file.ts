import { randomBytes } from "node:crypto";
import { existsSync, lstatSync, readdirSync, rmSync } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import type Database from "#better-sqlite3";
import { BESIDE, inLock, lockFile } from "./file-lock.ts";

/** Held, beside the draft, by the process that works on it. */
const LOCK = "-berth-lock";
const LOCK_NAME = new RegExp(`^.+\\.[0-9a-f]{12}(?=${LOCK}$)`);
const ATTEMPTS_MAX = 5;
/** The most abandoned drafts that are removed at once; the next run removes others. */
const REMOVED_MAX = 100;

/**
 * Writes a file beside its place and puts it there with `publish`, so that it is there whole or not at all. Only its
 * owner may read it. Drafts left in that folder by killed processes are removed first.
 */
export async function inDraft<T>(beside: string, work: (draft: string) => Promise<T>): Promise<T> {
  removeLeftDrafts(dirname(beside));
  const draft = `${beside}.${randomBytes(6).toString("hex")}`;
  const lock = lockOf(draft);
  try {
    // Readable by its owner alone from the beginning.
    await (await open(draft, "wx", 0o600)).close();
    return await work(draft);
  } finally {
    for (const suffix of ["", ...BESIDE]) await rm(draft + suffix, { force: true });
    if (lock) await rm(draft + LOCK, { force: true });
    lock?.close();
  }
}

/**
 * Taken before there is a draft. Undefined where nothing can be locked or written, which writing the draft will report.
 */
function lockOf(draft: string): Database.Database | undefined {
  const file = draft + LOCK;
  try {
    for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
      const lock = lockFile(file);
      // A cleanup of leftovers may have removed the file in the moment before the lock.
      if (lock && existsSync(file)) return lock;
      lock?.close();
    }
  } catch {
    rmSync(file, { force: true });
  }
  return undefined;
}

/** Removes the drafts in a folder whose processes were killed. A draft that cannot be removed does no harm. */
export function removeLeftDrafts(folder: string): void {
  try {
    const drafts = readdirSync(folder).flatMap((name) => LOCK_NAME.exec(name)?.[0] ?? []);
    for (const draft of drafts.slice(0, REMOVED_MAX)) {
      const path = join(folder, draft);
      // Where others may write, it may be a link of theirs to a file of this user's.
      const lock = lstatSync(path + LOCK);
      if (!lock.isFile() || lock.uid !== process.getuid?.()) continue;
      inLock(path + LOCK, () => {
        for (const suffix of ["", ...BESIDE, LOCK]) rmSync(path + suffix, { force: true });
      });
    }
  } catch {
    // A folder that cannot be read or written is reported by the caller that writes there.
  }
}

/** Gives the draft its name once all of it is on the disk. */
export async function publish(draft: string, file: string): Promise<void> {
  await sync(draft);
  await rename(draft, file);
  await sync(dirname(file));
}

export async function sync(path: string): Promise<void> {
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
