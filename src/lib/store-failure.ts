import { BerthError } from "./errors.ts";

/** `store_failed` for an error of SQLite or of its files, without their wording where that does not help. */
export function asStoreFailure(error: unknown): BerthError {
  if (error instanceof BerthError) return error;
  const { code = "", message } = error as { code?: string; message: string };
  return new BerthError("store_failed", whatFailed(code) ?? message, { cause: error });
}

export const DISK_FULL = "the disk of the data folder is full, and nothing was changed; free some space";

/** SQLite reports a single failed read alike. */
const DAMAGED =
  'the database is damaged, or its disk cannot be read; restore a backup with "berth restore FILE" if this persists';

/** Says what failed, without SQLite's wording where that does not help, and without a path: the caller sees it. */
function whatFailed(code: string): string | undefined {
  if (code === "SQLITE_FULL") return DISK_FULL;
  if (code.startsWith("SQLITE_READONLY")) return "the data folder cannot be written, and nothing was changed";
  if (/^SQLITE_(CORRUPT|NOTADB)/.test(code)) return DAMAGED;
  if (code.startsWith("SQLITE_IOERR")) return "the disk of the data folder fails";
  if (/^E[A-Z0-9]+$/.test(code)) return `the files of the store cannot be examined (${code}), and nothing was changed`;
  return undefined;
}
