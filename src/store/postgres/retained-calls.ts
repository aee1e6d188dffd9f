import { retainedCallsIn } from "../retained-calls.ts";
import type { RetainedCallStore } from "../store.ts";
import type { PostgresDatabase } from "./database.ts";
import { postgresDialect } from "./dialect.ts";
import { runSteps } from "./steps.ts";
import { checkRoom, type StoredSums } from "./stored-bytes.ts";

/** Retained calls in Postgres. Each write has locked its tenant. */
export function postgresRetainedCalls(database: PostgresDatabase, storedBytes: StoredSums): RetainedCallStore {
  return retainedCallsIn({
    dialect: postgresDialect,
    read: (steps) => runSteps(database.run, steps),
    write: (tenant, work, added) =>
      database.change(
        tenant,
        async (run) => {
          if (added)
            checkRoom(await storedBytes.lately(run, tenant), added.bytes, added.storedBytesMax, "storage_full");
          return runSteps(run, work());
        },
        { isDurable: false },
      ),
  });
}
