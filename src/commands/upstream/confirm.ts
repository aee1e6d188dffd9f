import { createInterface } from "node:readline/promises";
import { usageFailure } from "./failure.ts";

/** Asks a person; yes is the answer of an empty line. Without a terminal only `--yes` says so. */
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
