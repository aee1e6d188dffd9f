/** A thread for one checkpoint; it ends with it. Started by `checkpoints.ts`. */
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { parentPort, workerData } from "node:worker_threads";
import Database from "#better-sqlite3";
import type { CheckpointOrder, CheckpointReport } from "./checkpoints.ts";
import { identityOf, moved, stampLog } from "./store-files.ts";

interface Progress {
  /** The frames of the log, and how many of them are in the database. */
  readonly log: number;
  readonly checkpointed: number;
}

/** The most frames that may be left for the moment in which nobody writes. */
const LAST_FRAMES = 256;
const PASSES_MAX = 4;

const { file, identity, keptBytes } = workerData as CheckpointOrder;
const port = parentPort!;

let report: CheckpointReport;
try {
  report = { pages: await checkpoint() };
} catch (error) {
  const { code, message } = error as { code?: string; message: string };
  report = { error: { code, message: code === "SQLITE_CANTOPEN" ? whyUnopened(message) : message } };
}
port.postMessage(report);
port.close();

/**
 * Returns the length of the log that is now in the database, on the disk; undefined when not all of it could be moved.
 */
async function checkpoint(): Promise<number | undefined> {
  const database = new Database(file, { fileMustExist: true, timeout: 0 });
  if (identityOf(file) !== identity) {
    database.close();
    throw moved();
  }
  const reader = new Database(file, { fileMustExist: true, readonly: true });
  try {
    // A log that grew beyond this, because of a long read, is truncated when it restarts.
    database.pragma(`journal_size_limit = ${keptBytes}`);
    for (let pass = 1; pass <= PASSES_MAX; pass++) {
      const wanted = progressOf(database, "NOOP").log;
      // While a reader is active, no writer restarts the log, for which it would wait for the disk.
      reader.exec("BEGIN");
      reader.pragma("user_version");
      const { checkpointed } = progressOf(database, "PASSIVE");
      if (checkpointed < wanted) return undefined;
      if (progressOf(database, "NOOP").log - checkpointed <= LAST_FRAMES || pass === PASSES_MAX) break;
      reader.exec("COMMIT");
    }
    await writingPaused();
    reader.exec("COMMIT");
    const { log, checkpointed } = progressOf(database, "PASSIVE");
    if (checkpointed < log) return undefined;
    // The first write after a whole checkpoint restarts the log and waits for the disk.
    stampLog(database);
    return log;
  } finally {
    reader.close();
    database.close();
  }
}

function progressOf(database: Database.Database, mode: "PASSIVE" | "NOOP"): Progress {
  return (database.pragma(`wal_checkpoint(${mode})`) as [Progress])[0];
}

async function writingPaused(): Promise<void> {
  port.postMessage("pause");
  await once(port, "message");
}

/** SQLite says the same of a process that has too many files open. */
function whyUnopened(message: string): string {
  try {
    closeSync(openSync("/dev/null", "r"));
    return message;
  } catch (error) {
    return `${message}: ${(error as Error).message}`;
  }
}
