import Database from "#better-sqlite3";
import { matches } from "../lib/cid.ts";
import { migrations } from "./migrations/index.ts";

/** Named problems are enough to know what is wrong. */
const PROBLEMS_MAX = 20;

/** What a database of Berth's holds, once it was looked at whole. */
export interface Verified {
  readonly version: number;
  /** Contents, each with the bytes that its CID says. */
  readonly contents: number;
  readonly bytes: number;
  readonly problems: readonly string[];
}

/**
 * Reads a whole database file, and says everything that is wrong with it: whether SQLite finds it whole, whether every
 * reference leads somewhere, and whether all content is what its CID says. Does not throw for what is wrong with the file.
 */
export function verifyDatabase(file: string): Verified {
  let database: Database.Database | undefined;
  try {
    database = new Database(file, { readonly: true, fileMustExist: true });
    return look(database);
  } catch (error) {
    return { version: 0, contents: 0, bytes: 0, problems: [`it is no database: ${(error as Error).message}`] };
  } finally {
    database?.close();
  }
}

function look(database: Database.Database): Verified {
  const version = database.pragma("user_version", { simple: true }) as number;
  const problems = versionProblems(version);
  const integrity = database.pragma(`integrity_check(${PROBLEMS_MAX})`) as { integrity_check: string }[];
  problems.push(...integrity.map((row) => row.integrity_check).filter((text) => text !== "ok"));
  if (problems.length === 0) problems.push(...strangeParts(database));
  // What does not hang together is not read any further.
  if (problems.length > 0) return { version, contents: 0, bytes: 0, problems };

  const orphans = database.pragma("foreign_key_check") as { table: string; rowid: number | null }[];
  for (const { table, rowid } of orphans.slice(0, PROBLEMS_MAX)) {
    problems.push(`row ${rowid ?? "?"} of the table ${table} refers to what is not there`);
  }
  let [contents, bytes] = [0, 0];
  const all = database.prepare<[], { cid: string; bytes: Buffer }>("SELECT cid, bytes FROM content");
  for (const content of all.iterate()) {
    contents += 1;
    bytes += content.bytes.length;
    const isRight = matches(content.cid, content.bytes);
    if (!isRight && problems.length < PROBLEMS_MAX) problems.push(`the bytes of ${content.cid} are not what it says`);
  }
  return { version, contents, bytes, problems };
}

/** Berth makes neither triggers nor views; one that somebody else made would go on acting, in each later backup, too. */
function strangeParts(database: Database.Database): string[] {
  const found = database.prepare<[], { type: string; name: string }>(
    "SELECT type, name FROM sqlite_schema WHERE type IN ('trigger', 'view') LIMIT 20",
  );
  return found.all().map(({ type, name }) => `it has the ${type} "${name}", which Berth did not make`);
}

function versionProblems(version: number): string[] {
  if (version === 0) return ["it is no database of Berth's"];
  if (version <= migrations.length) return [];
  return [`it is of version ${version} and this Berth knows ${migrations.length}; use the newer Berth that wrote it`];
}
