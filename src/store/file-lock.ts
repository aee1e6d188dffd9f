import Database from "#better-sqlite3";

/**
 * Takes a file for this process alone; undefined when another process has it. The system takes the lock away when the
 * process ends, however it ends: so it is known of what stands beside it whether it is anybody's still. The file is made
 * where it is not there.
 */
export function lockFile(file: string): Database.Database | undefined {
  const database = new Database(file, { timeout: 0 });
  try {
    database.pragma("locking_mode = EXCLUSIVE");
    // Nothing of it is of use once its process has ended, so that nothing has to wait for the disk.
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

/** A process that was killed while it wrote has left what SQLite cannot read; whoever has the lock could not be there. */
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
