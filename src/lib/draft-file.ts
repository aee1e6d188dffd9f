import { randomBytes } from "node:crypto";
import { existsSync, lstatSync, readdirSync, rmSync } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import type Database from "#better-sqlite3";
import { SIDECAR_SUFFIXES, withLock, lockFile } from "./file-lock.ts";

/** Held next to the draft by the process that writes it. */
const LOCK = "-berth-lock";
const LOCK_NAME = new RegExp(`^.+\\.[0-9a-f]{12}(?=${LOCK}$)`);
const ATTEMPTS_MAX = 5;
/** The most orphaned drafts that one run removes; the next run continues. */
const REMOVED_MAX = 100;

/**
 * Writes a file next to its destination and moves it there with `publish`, so that it is complete or does not exist.
 * Only its owner may read it. First removes drafts that killed processes left in that folder.
 */
export async function withDraftFile<T>(destination: string, work: (draft: string) => Promise<T>): Promise<T> {
  removeOrphanedDrafts(dirname(destination));
  const draft = `${destination}.${randomBytes(6).toString("hex")}`;
  const lock = lockDraft(draft);
  try {
    // Readable only by its owner from the start.
    await (await open(draft, "wx", 0o600)).close();
    return await work(draft);
  } finally {
    for (const suffix of ["", ...SIDECAR_SUFFIXES]) await rm(draft + suffix, { force: true });
    if (lock) await rm(draft + LOCK, { force: true });
    lock?.close();
  }
}

/** Locks before the draft exists. Undefined if nothing can be locked, which writing the draft will report. */
function lockDraft(draft: string): Database.Database | undefined {
  const file = draft + LOCK;
  try {
    for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
      const lock = lockFile(file);
      // The cleanup of another process may have removed the file just before it was locked.
      if (lock && existsSync(file)) return lock;
      lock?.close();
    }
  } catch {
    rmSync(file, { force: true });
  }
  return undefined;
}

/** Removes drafts in a folder whose processes were killed. A draft that cannot be removed does no harm. */
export function removeOrphanedDrafts(folder: string): void {
  try {
    const drafts = readdirSync(folder).flatMap((name) => LOCK_NAME.exec(name)?.[0] ?? []);
    for (const draft of drafts.slice(0, REMOVED_MAX)) {
      const path = join(folder, draft);
      // In a folder that other users can write, it may be their link to a file of this user.
      const lock = lstatSync(path + LOCK);
      if (!lock.isFile() || lock.uid !== process.getuid?.()) continue;
      withLock(path + LOCK, () => {
        for (const suffix of ["", ...SIDECAR_SUFFIXES, LOCK]) rmSync(path + suffix, { force: true });
      });
    }
  } catch {
    // A folder that cannot be read or written is reported by the caller that writes there.
  }
}

/** Moves the draft to its destination once all of it is on disk. */
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
