import Database from "#better-sqlite3";

/** The suffixes of files that belong to a database and are worthless without it. */
export const BESIDE = ["-wal", "-shm", "-journal"] as const;

/**
 * Takes a file for this process alone, making it where it is missing; undefined when another process has it. The system
 * releases the lock when the process ends, however it ends: so the file beside the lock is known to be abandoned or
 * not.
 */
export function lockFile(file: string): Database.Database | undefined {
  const database = new Database(file, { timeout: 0 });
  try {
    database.pragma("locking_mode = EXCLUSIVE");
    // Nothing in it is of use once its process has ended, so nothing has to wait for the disk.
    database.pragma("journal_mode = MEMORY");
    database.pragma("synchronous = OFF");
    database.exec("BEGIN EXCLUSIVE; COMMIT");
    return database;
  } catch (error) {
    database.close();
    if (codeOf(error).startsWith("SQLITE_BUSY")) return undefined;
    throw error;
  }
}

/**
 * Runs `work` under the lock. `broken`: a process killed while it wrote left what SQLite cannot read, so no process
 * holds the lock.
 */
export function inLock(file: string, work: () => void): "done" | "busy" | "broken" {
  try {
    const database = lockFile(file);
    if (!database) return "busy";
    try {
      work();
    } finally {
      database.close();
    }
    return "done";
  } catch (error) {
    if (/^SQLITE_(?:CORRUPT|NOTADB)/.test(codeOf(error))) return "broken";
    throw error;
  }
}

function codeOf(error: unknown): string {
  return String((error as { code?: unknown }).code);
}
