import { BerthError } from "../lib/errors.ts";

/** The time for a reader of stderr to take its last lines. */
const LAST_WORDS_MS = 1_000;

/** Turns a command's result into the exit code, and its failure into a line for the person who called it. */
export async function run(command: Promise<number>): Promise<void> {
  try {
    process.exitCode = await command;
  } catch (error) {
    if (!(error instanceof BerthError)) throw error;
    console.error(`berth: ${error.message}`);
    process.exitCode = 2;
  }
  // Without a reader, pending output would keep the process.
  if (process.stderr.writableLength > 0) setTimeout(() => process.exit(), LAST_WORDS_MS).unref();
}
