import { chmodSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { BerthError } from "../errors.ts";
import { migrations } from "./migrations/index.ts";

/** The file inside the data folder. */
export const DATABASE_FILE = "berth.sqlite";

/** Opens the database of a data folder, makes both if they are missing, and takes the migrations that it lacks. */
export function openDatabase(dataDir: string, busyMs: number): Database.Database {
  let database: Database.Database | undefined;
  try {
    // Secrets are kept here: nobody else on the machine may read the folder or the file.
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    const file = join(dataDir, DATABASE_FILE);
    database = new Database(file, { timeout: busyMs });
    chmodSync(file, 0o600);
    keepLog(database, busyMs);
    // Whoever writes does not wait for the disk: what is to be kept is flushed by itself (`write-ahead-log.ts`).
    database.pragma("synchronous = NORMAL");
    database.pragma("foreign_keys = ON");
    upgradeDatabase(database);
    return database;
  } catch (error) {
    database?.close();
    if (error instanceof BerthError) throw error;
    const reason = (error as Error).message;
    throw new BerthError("store_failed", `the data folder ${dataDir} cannot be opened: ${reason}`, { cause: error });
  }
}

/** Where several processes make the same new file at once, SQLite does not wait for the others here by itself. */
function keepLog(database: Database.Database, busyMs: number): void {
  for (const until = performance.now() + busyMs; ;) {
    try {
      database.pragma("journal_mode = WAL");
      return;
    } catch (error) {
      if ((error as { code?: unknown }).code !== "SQLITE_BUSY" || performance.now() >= until) throw error;
      Atomics.wait(pause, 0, 0, AGAIN_MS);
    }
  }
}

const AGAIN_MS = 5;
const pause = new Int32Array(new SharedArrayBuffer(4));

/** Takes the migrations that a database lacks. Throws `store_failed` for one of a newer Berth. */
export function upgradeDatabase(database: Database.Database): void {
  if (taken(database) === migrations.length) return;
  database
    .transaction(() => {
      // Asked again now that the lock is held: another process may have been first.
      const from = taken(database);
      if (from > migrations.length) {
        throw new BerthError(
          "store_failed",
          `the database is at version ${from} and this Berth knows ${migrations.length}; start the newer Berth that wrote it`,
        );
      }
      for (const sql of migrations.slice(from)) database.exec(sql);
      database.pragma(`user_version = ${migrations.length}`);
    })
    .immediate();
}

function taken(database: Database.Database): number {
  return database.pragma("user_version", { simple: true }) as number;
}
