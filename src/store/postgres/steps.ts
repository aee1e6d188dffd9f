import { removeClaims } from "../left-claims.ts";
import type { Steps, Write } from "../steps.ts";
import type { PostgresDatabase, RunSql } from "./database.ts";
import { postgresDialect } from "./dialect.ts";

/** Runs steps within one transaction, or each as a transaction of its own. */
export async function runSteps<T>(run: RunSql, steps: Steps<T>): Promise<T> {
  let next = steps.next([]);
  while (!next.done) next = steps.next(await run(next.value.sql, next.value.values));
  return next.value;
}

const QUICK = { isDurable: false } as const;

/** Transactions that need not survive a power cut. */
export function shortWrites(database: PostgresDatabase): Write {
  return (work) => database.transaction((run) => runSteps(run, work()), QUICK);
}

/** Removes what is left under an alias. */
export function removeLeft(database: PostgresDatabase, alias: string): Promise<number> {
  return removeClaims(shortWrites(database), postgresDialect, alias);
}

/** As `removeLeft`, after a finished change: the next collection removes what remains when the database is lost. */
export async function removeLater(database: PostgresDatabase, alias: string): Promise<void> {
  await removeLeft(database, alias).catch(() => {});
}
