import { createInterface } from "node:readline/promises";
import { usageFailure } from "./failure.ts";

/** Asks a person; an empty line means yes. Without a terminal only `--yes` does. */
export async function confirm(question: string, { yes }: { readonly yes?: boolean }): Promise<boolean> {
  if (yes) return true;
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    throw usageFailure(`"${question}" cannot be asked without a terminal; --yes answers it.`);
  }
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^(?:y(?:es)?)?$/i.test((await terminal.question(`${question} (Y/n) `)).trim());
  } finally {
    terminal.close();
  }
}
