import Database from "#better-sqlite3";
import { matches } from "../../lib/cid.ts";
import { readVersion, versionProblem } from "./upgrade.ts";

const PROBLEMS_MAX = 20;

/** The result of reading a whole database. */
export interface VerifiedDatabase {
  readonly version: number;
  /** The number of contents, whose bytes all match their CIDs. */
  readonly contents: number;
  readonly bytes: number;
  readonly problems: readonly string[];
}

/**
 * Reads a whole database file and reports everything that is wrong with it: its structure according to SQLite, missing
 * references, and contents that do not match their CIDs. Does not throw for problems of the file.
 */
export function verifyDatabase(file: string): VerifiedDatabase {
  let database: Database.Database | undefined;
  try {
    database = new Database(file, { readonly: true, fileMustExist: true });
    return inspect(database);
  } catch (error) {
    return { version: 0, contents: 0, bytes: 0, problems: [`it is not a database: ${(error as Error).message}`] };
  } finally {
    database?.close();
  }
}

function inspect(database: Database.Database): VerifiedDatabase {
  const version = readVersion(database);
  const problems = versionProblems(version);
  const integrity = database.pragma(`integrity_check(${PROBLEMS_MAX})`) as { integrity_check: string }[];
  // The first line is the name of the database.
  const lines = integrity.map((row) => row.integrity_check.split("\n").at(-1)!);
  problems.push(...lines.filter((line) => line !== "ok"));
  if (problems.length === 0) problems.push(...findForeignObjects(database));
  // An inconsistent database is not read any further.
  if (problems.length > 0) return { version, contents: 0, bytes: 0, problems };

  const orphans = database.pragma("foreign_key_check") as { table: string; rowid: number | null }[];
  for (const { table, rowid } of orphans.slice(0, PROBLEMS_MAX)) {
    problems.push(`row ${rowid ?? "?"} of the table ${table} refers to a missing row`);
  }
  let [contents, bytes] = [0, 0];
  const selectContents = database.prepare<[], { cid: string; bytes: Buffer }>("SELECT cid, bytes FROM content");
  for (const content of selectContents.iterate()) {
    contents += 1;
    bytes += content.bytes.length;
    const isMatch = matches(content.cid, content.bytes);
    if (!isMatch && problems.length < PROBLEMS_MAX) problems.push(`the bytes of ${content.cid} do not match it`);
  }
  return { version, contents, bytes, problems };
}

/** Berth creates neither triggers nor views. Foreign ones would remain active, even in later backups. */
function findForeignObjects(database: Database.Database): string[] {
  const objects = database.prepare<[], { type: string; name: string }>(
    "SELECT type, name FROM sqlite_schema WHERE type IN ('trigger', 'view') LIMIT 20",
  );
  return objects.all().map(({ type, name }) => `it contains the ${type} "${name}", which Berth did not create`);
}

function versionProblems(version: number): string[] {
  if (version === 0) return ["it is not a Berth database"];
  const problem = versionProblem(version);
  return problem === undefined ? [] : [`it ${problem}; use a backup of this version`];
}
