import Database from "#better-sqlite3";
import { matches } from "../../lib/cid.ts";
import { versionOf, versionProblem } from "./upgrade.ts";

/** The most problems that are listed. */
const PROBLEMS_MAX = 20;

/** The facts of a Berth database that was read completely. */
export interface Verified {
  readonly version: number;
  /** Contents, each with bytes that match its CID. */
  readonly contents: number;
  readonly bytes: number;
  readonly problems: readonly string[];
}

/**
 * Reads a whole database file and reports everything that is wrong with it: if SQLite finds it whole, if every
 * reference leads somewhere, and if all content matches its CID. Does not throw for problems of the file.
 */
export function verifyDatabase(file: string): Verified {
  let database: Database.Database | undefined;
  try {
    database = new Database(file, { readonly: true, fileMustExist: true });
    return look(database);
  } catch (error) {
    return { version: 0, contents: 0, bytes: 0, problems: [`it is not a database: ${(error as Error).message}`] };
  } finally {
    database?.close();
  }
}

function look(database: Database.Database): Verified {
  const version = versionOf(database);
  const problems = versionProblems(version);
  const integrity = database.pragma(`integrity_check(${PROBLEMS_MAX})`) as { integrity_check: string }[];
  // The name of the database comes first, on a line of its own.
  const lines = integrity.map((row) => row.integrity_check.split("\n").at(-1)!);
  problems.push(...lines.filter((line) => line !== "ok"));
  if (problems.length === 0) problems.push(...strangeParts(database));
  // An inconsistent database is not read any further.
  if (problems.length > 0) return { version, contents: 0, bytes: 0, problems };

  const orphans = database.pragma("foreign_key_check") as { table: string; rowid: number | null }[];
  for (const { table, rowid } of orphans.slice(0, PROBLEMS_MAX)) {
    problems.push(`row ${rowid ?? "?"} of the table ${table} refers to a missing row`);
  }
  let [contents, bytes] = [0, 0];
  const all = database.prepare<[], { cid: string; bytes: Buffer }>("SELECT cid, bytes FROM content");
  for (const content of all.iterate()) {
    contents += 1;
    bytes += content.bytes.length;
    const isRight = matches(content.cid, content.bytes);
    if (!isRight && problems.length < PROBLEMS_MAX) problems.push(`the bytes of ${content.cid} do not match it`);
  }
  return { version, contents, bytes, problems };
}

/** Berth makes neither triggers nor views; foreign ones would go on acting, in each later backup, too. */
function strangeParts(database: Database.Database): string[] {
  const found = database.prepare<[], { type: string; name: string }>(
    "SELECT type, name FROM sqlite_schema WHERE type IN ('trigger', 'view') LIMIT 20",
  );
  return found.all().map(({ type, name }) => `it has the ${type} "${name}", which Berth did not make`);
}

function versionProblems(version: number): string[] {
  if (version === 0) return ["it is not a database of Berth"];
  const problem = versionProblem(version);
  return problem === undefined ? [] : [`it ${problem}; use a backup of this version`];
}
