import Database from "better-sqlite3";

/** Asks a database in memory. */
export function asked(): unknown {
  return new Database(":memory:").prepare("SELECT 1 + 1 AS two").get();
}
