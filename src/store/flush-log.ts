import { open } from "node:fs/promises";
import { BerthError } from "../errors.ts";

/**
 * Resolves when all that was committed so far is on the disk: a power cut takes none of it back. Calls go on meanwhile,
 * as they would not if SQLite itself waited for the disk. Rejects with `store_failed`.
 */
export async function flushLog(databaseFile: string): Promise<void> {
  try {
    const log = await open(`${databaseFile}-wal`, "r+");
    try {
      await log.datasync();
    } finally {
      await log.close();
    }
  } catch (error) {
    // Whoever closes the database as the last one writes the log into it, and removes it.
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return;
    throw new BerthError("store_failed", (error as Error).message, { cause: error });
  }
}
