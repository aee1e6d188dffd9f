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
 * The use of the temporary folder in the sandbox of a process, which is a file system of its own. Undefined while the
 * sandbox is being set up, when the folder is still everybody's, and where Linux shows it to nobody.
 */
export function sandboxUseOf(pid: number): FolderUse | undefined {
  const folder = `/proc/${pid}/root/tmp`;
  try {
    if (statSync(folder).dev === statSync("/tmp").dev) return undefined;
    const { bsize, blocks, bfree, files, ffree } = statfsSync(folder);
    return { megabytes: ((blocks - bfree) * bsize) / MEGABYTE, files: files - ffree };
  } catch {
    return undefined;
  }
}

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
