import { statfsSync, statSync } from "node:fs";
import { lstat, opendir } from "node:fs/promises";
import { join } from "node:path";

/** How much a process has written to a folder. */
export interface FolderUsage {
  readonly megabytes: number;
  /** Files, folders and links. */
  readonly files: number;
}

const MEGABYTE = 1024 * 1024;

/**
 * The usage of a folder in a sandbox, where it is an in-memory file system of its own; `pids` are its processes, the
 * innermost last. Undefined while the sandbox is being set up, and without a sandbox, when the folder belongs to the
 * host.
 */
export function sandboxUsage(pids: readonly number[], folder = "/tmp"): FolderUsage | undefined {
  for (const pid of pids.toReversed()) {
    try {
      const inside = `/proc/${pid}/root${folder}`;
      const outside = statSync(folder, { throwIfNoEntry: false })?.dev;
      const device = statSync(inside).dev;
      const { bsize, blocks, bfree, files, ffree } = statfsSync(inside);
      // While `bwrap` changes the root, the path may briefly lead to the host's folder.
      if (device === outside || statSync(inside).dev !== device) continue;
      return { megabytes: ((blocks - bfree) * bsize) / MEGABYTE, files: files - ffree };
    } catch {
      // This process has ended. A script could end its innermost process repeatedly, so the others are tried, too.
    }
  }
  return undefined;
}

/**
 * Kernel memory of a file in memory, in addition to its content, with the longest name and link target. An in-memory
 * file system may have as many files as fit into half of the machine's memory, and `bwrap` cannot set a lower limit.
 */
export const INODE_BYTES = 1_600;

/** The usage of a host folder. Counting stops above `limit`, to bound its duration. Follows no symbolic links. */
export async function measureFolder(folder: string, limit: FolderUsage): Promise<FolderUsage> {
  let [bytes, files] = [0, 0];
  const pending = [folder];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    try {
      for await (const entry of await opendir(next)) {
        const path = join(next, entry.name);
        files++;
        if (entry.isDirectory()) pending.push(path);
        else bytes += await diskBytes(path);
        if (files > limit.files || bytes > limit.megabytes * MEGABYTE) return { megabytes: bytes / MEGABYTE, files };
      }
    } catch {
      // It was removed, or its owner denies access.
    }
  }
  return { megabytes: bytes / MEGABYTE, files };
}

/** The disk space that it takes: a sparse file may be longer than what was written to it. */
async function diskBytes(path: string): Promise<number> {
  try {
    return (await lstat(path)).blocks * BLOCK_BYTES;
  } catch {
    return 0;
  }
}

/** The unit of `st_blocks` in `stat(2)`. */
const BLOCK_BYTES = 512;
