import { removeClaims } from "../leftover-claims.ts";
import type { Steps, Write } from "../steps.ts";
import type { PostgresDatabase, RunSql } from "./database.ts";
import { postgresDialect } from "./dialect.ts";

/** Runs steps within one transaction, or each step in its own. */
export async function runSteps<T>(run: RunSql, steps: Steps<T>): Promise<T> {
  let next = steps.next([]);
  while (!next.done) next = steps.next(await run(next.value.sql, next.value.values));
  return next.value;
}

const ASYNC_COMMIT = { isDurable: false } as const;

/** Transactions that need not survive a power cut. */
export function shortWrites(database: PostgresDatabase): Write {
  return (work) => database.transaction((run) => runSteps(run, work()), ASYNC_COMMIT);
}

/** Removes everything under an alias. */
export function removeAliasData(database: PostgresDatabase, alias: string): Promise<number> {
  return removeClaims(shortWrites(database), postgresDialect, alias);
}

/** The same after a committed change. If it fails, the next collection removes the rest. */
export async function tryRemoveAliasData(database: PostgresDatabase, alias: string): Promise<void> {
  await removeAliasData(database, alias).catch(() => {});
}
