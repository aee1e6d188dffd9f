import Database from "#better-sqlite3";

/** The suffixes of files that belong to a database and are worthless without it. */
export const SIDECAR_SUFFIXES = ["-wal", "-shm", "-journal"] as const;

/**
 * Locks a file for this process, creating it if necessary; undefined if another process has locked it. The system
 * releases the lock however the process ends, so the lock shows whether the file next to it is abandoned.
 */
export function lockFile(file: string): Database.Database | undefined {
  const database = new Database(file, { timeout: 0 });
  try {
    database.pragma("locking_mode = EXCLUSIVE");
    // Its content is worthless once its process has ended, so no write has to wait for the disk.
    database.pragma("journal_mode = MEMORY");
    database.pragma("synchronous = OFF");
    database.exec("BEGIN EXCLUSIVE; COMMIT");
    return database;
  } catch (error) {
    database.close();
    if (errorCode(error).startsWith("SQLITE_BUSY")) return undefined;
    throw error;
  }
}

/**
 * Runs `work` under the lock. `broken`: a process that was killed while writing left a file that SQLite cannot read, so
 * no process holds the lock.
 */
export function withLock(file: string, work: () => void): "done" | "busy" | "broken" {
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
    if (/^SQLITE_(?:CORRUPT|NOTADB)/.test(errorCode(error))) return "broken";
    throw error;
  }
}

function errorCode(error: unknown): string {
  return String((error as { code?: unknown }).code);
}
