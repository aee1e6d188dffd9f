import { BerthError } from "./errors.ts";

/** Converts an error of SQLite or of its files to `store_failed`, without its message if that does not help. */
export function toStoreFailure(error: unknown): BerthError {
  if (error instanceof BerthError) return error;
  const { code = "", message } = error as { code?: string; message: string };
  return new BerthError("store_failed", describeFailure(code) ?? message, { cause: error });
}

export const DISK_FULL = "the disk of the data folder is full, and nothing was changed; free some space";

/** SQLite reports a single failed read in the same way. */
const DAMAGED =
  'the database is damaged, or its disk cannot be read; restore a backup with "berth restore FILE" if this persists';

/** Describes the failure, without SQLite's message if that does not help, and without a path: the caller sees it. */
function describeFailure(code: string): string | undefined {
  if (code === "SQLITE_FULL") return DISK_FULL;
  if (code.startsWith("SQLITE_READONLY")) return "the data folder cannot be written, and nothing was changed";
  if (/^SQLITE_(CORRUPT|NOTADB)/.test(code)) return DAMAGED;
  if (code.startsWith("SQLITE_IOERR")) return "the disk of the data folder fails";
  if (/^E[A-Z0-9]+$/.test(code)) return `the files of the store cannot be examined (${code}), and nothing was changed`;
  return undefined;
}
