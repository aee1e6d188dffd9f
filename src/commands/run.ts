import { BerthError } from "../lib/errors.ts";

/** For whoever reads stderr to take what stands there last. */
const LAST_WORDS_MS = 1_000;

/** A command's result is the exit code; what it could not do is a line for the person who called it. */
export async function run(command: Promise<number>): Promise<void> {
  try {
    process.exitCode = await command;
  } catch (error) {
    if (!(error instanceof BerthError)) throw error;
    console.error(`berth: ${error.message}`);
    process.exitCode = 2;
  }
  // Without a reader it would keep the process.
  if (process.stderr.writableLength > 0) setTimeout(() => process.exit(), LAST_WORDS_MS).unref();
}
