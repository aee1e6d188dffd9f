import { BerthError } from "../lib/errors.ts";
import { toStoreFailure } from "../lib/store-failure.ts";

/** The time for a reader of stderr to take its last lines. */
const LAST_WORDS_MS = 1_000;

/** Turns a command's result into the exit code, and its failure into a line for the person who called it. */
export async function run(command: Promise<number>): Promise<void> {
  try {
    process.exitCode = await command;
  } catch (error) {
    const failure = explain(error);
    if (!(failure instanceof BerthError)) throw failure;
    console.error(`berth: ${failure.message}`);
    process.exitCode = 2;
  }
  // Without a reader, pending output would keep the process.
  if (process.stderr.writableLength > 0) setTimeout(() => process.exit(), LAST_WORDS_MS).unref();
}

/** An error of SQLite, wherever a command reads a damaged store, is no fault of Berth's code that needs a stack trace. */
function explain(error: unknown): unknown {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === "string" && code.startsWith("SQLITE_") ? toStoreFailure(error) : error;
}
