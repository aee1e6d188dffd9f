import { statfsSync, statSync } from "node:fs";
import { lstat, opendir } from "node:fs/promises";
import { join } from "node:path";

/** The content of a folder that a process may fill, in figures. */
export interface FolderUse {
  readonly megabytes: number;
  /** Files, folders and links. */
  readonly files: number;
}

const MEGABYTE = 1024 * 1024;

/**
 * The use of a folder in a sandbox that is a file system of its own, in memory; `pids` are its processes, the innermost
 * last. Undefined while the sandbox is being set up and without a sandbox, when the folder belongs to the machine.
 */
export function sandboxUse(pids: readonly number[], folder = "/tmp"): FolderUse | undefined {
  for (const pid of pids.toReversed()) {
    try {
      const inside = `/proc/${pid}/root${folder}`;
      const outside = statSync(folder, { throwIfNoEntry: false })?.dev;
      const found = statSync(inside).dev;
      const { bsize, blocks, bfree, files, ffree } = statfsSync(inside);
      // While `bwrap` changes the root, the path may lead to the machine's folder for a moment.
      if (found === outside || statSync(inside).dev !== found) continue;
      return { megabytes: ((blocks - bfree) * bsize) / MEGABYTE, files: files - ffree };
    } catch {
      // The process ended: it tells nothing, and a script could end its innermost process all the time.
    }
  }
  return undefined;
}

/**
 * The kernel memory of a file in memory, beside its content, with a name and a link's target of the longest kind. A file
 * system in memory may have as many files as half of the machine's memory holds, and `bwrap` cannot give a lower limit.
 */
export const INODE_BYTES = 1_600;

/**
 * The use of a folder of this machine. Counting ends where there is more than `most`: that is known then, and nobody can
 * make it take long. Links are not followed.
 */
export async function folderUseOf(folder: string, most: FolderUse): Promise<FolderUse> {
  let [bytes, files] = [0, 0];
  const waiting = [folder];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    try {
      for await (const entry of await opendir(next)) {
        const path = join(next, entry.name);
        files++;
        if (entry.isDirectory()) waiting.push(path);
        else bytes += await sizeOf(path);
        if (files > most.files || bytes > most.megabytes * MEGABYTE) return { megabytes: bytes / MEGABYTE, files };
      }
    } catch {
      // It was removed, or its owner hides it.
    }
  }
  return { megabytes: bytes / MEGABYTE, files };
}

/** The room that it takes on the disk: a file may be longer than what was written to it. */
async function sizeOf(path: string): Promise<number> {
  try {
    return (await lstat(path)).blocks * BLOCK_BYTES;
  } catch {
    return 0;
  }
}

/** The unit of `stat(2)`. */
const BLOCK_BYTES = 512;
