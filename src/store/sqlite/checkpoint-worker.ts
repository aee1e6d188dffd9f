/** The thread of a single checkpoint. Started by `checkpoints.ts`. */
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { parentPort, workerData } from "node:worker_threads";
import Database from "#better-sqlite3";
import type { CheckpointTask, CheckpointReport } from "./checkpoints.ts";
import { fileIdentity, filesMoved, stampLog } from "./store-files.ts";

interface Progress {
  /** The number of frames in the log, and how many of them are in the database. */
  readonly log: number;
  readonly checkpointed: number;
}

/** The maximum number of frames left for the pause of writing. */
const LAST_FRAMES = 256;
const PASSES_MAX = 4;

const { file, identity, keptBytes } = workerData as CheckpointTask;
const port = parentPort!;

let report: CheckpointReport;
try {
  report = { pages: await checkpoint() };
} catch (error) {
  const { code, message } = error as { code?: string; message: string };
  report = { error: { code, message: code === "SQLITE_CANTOPEN" ? describeOpenFailure(message) : message } };
}
port.postMessage(report);
port.close();

/**
 * Returns the number of log frames that are now in the database on disk; undefined if not all of them could be moved.
 */
async function checkpoint(): Promise<number | undefined> {
  const database = new Database(file, { fileMustExist: true, timeout: 0 });
  if (fileIdentity(file) !== identity) {
    database.close();
    throw filesMoved();
  }
  const reader = new Database(file, { fileMustExist: true, readonly: true });
  try {
    // A log that a long read made longer than this is truncated when it restarts.
    database.pragma(`journal_size_limit = ${keptBytes}`);
    for (let pass = 1; pass <= PASSES_MAX; pass++) {
      const target = runCheckpoint(database, "NOOP").log;
      // While there is a reader, no writer restarts the log, which would wait for the disk.
      reader.exec("BEGIN");
      reader.pragma("user_version");
      const { checkpointed } = runCheckpoint(database, "PASSIVE");
      if (checkpointed < target) return undefined;
      if (runCheckpoint(database, "NOOP").log - checkpointed <= LAST_FRAMES || pass === PASSES_MAX) break;
      reader.exec("COMMIT");
    }
    await pauseWriting();
    reader.exec("COMMIT");
    const { log, checkpointed } = runCheckpoint(database, "PASSIVE");
    if (checkpointed < log) return undefined;
    // Otherwise, the first write after a complete checkpoint restarts the log and waits for the disk.
    stampLog(database);
    return log;
  } finally {
    reader.close();
    database.close();
  }
}

function runCheckpoint(database: Database.Database, mode: "PASSIVE" | "NOOP"): Progress {
  return (database.pragma(`wal_checkpoint(${mode})`) as [Progress])[0];
}

async function pauseWriting(): Promise<void> {
  port.postMessage("pause");
  await once(port, "message");
}

/** Adds the cause if the process has too many open files, which SQLite does not distinguish. */
function describeOpenFailure(message: string): string {
  try {
    closeSync(openSync("/dev/null", "r"));
    return message;
  } catch (error) {
    return `${message}: ${(error as Error).message}`;
  }
}
