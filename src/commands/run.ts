import { BerthError } from "../errors.ts";

/** A command's result is the exit code; what it could not do is a line for the person who called it. */
export async function run(command: Promise<number>): Promise<void> {
  try {
    process.exitCode = await command;
  } catch (error) {
    if (!(error instanceof BerthError)) throw error;
    console.error(`berth: ${error.message}`);
    process.exitCode = 2;
  }
}
