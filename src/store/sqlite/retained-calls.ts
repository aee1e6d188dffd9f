import type Database from "#better-sqlite3";
import { retainedCallsIn } from "../retained-calls.ts";
import type { RetainedCallStore } from "../store.ts";
import { attempt } from "./attempt.ts";
import { sqliteDialect } from "./dialect.ts";
import { inTransaction, runSteps } from "./steps.ts";
import type { StoredBytes } from "./stored-bytes.ts";
import type { WriteAheadLog } from "./write-ahead-log.ts";

/** Retained calls in a SQLite file. */
export function sqliteRetainedCalls(
  database: Database.Database,
  log: WriteAheadLog,
  storedBytes: StoredBytes,
): RetainedCallStore {
  return retainedCallsIn({
    dialect: sqliteDialect,
    read: async (steps) => attempt(() => runSteps(database, steps)),
    async write(tenant, work, added) {
      const summing = added && storedBytes.ready(tenant, "lately");
      if (summing) await summing;
      return log.write(() =>
        inTransaction(database, () => {
          if (added) storedBytes.check(storedBytes.lately(tenant) + added.bytes, added.storedBytesMax, "storage_full");
          return work();
        }),
      );
    },
  });
}
