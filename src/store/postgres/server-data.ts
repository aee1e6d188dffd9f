import type { ServerData } from "../server-data.ts";
import type { PostgresDatabase } from "./database.ts";
import { postgresDialect } from "./dialect.ts";
import { tryRemoveAliasData, runSteps } from "./steps.ts";
import { checkQuota, type StoredSums } from "./stored-bytes.ts";

/** The data of servers in Postgres. Each write locks its tenant. */
export function postgresServerData(database: PostgresDatabase, storedBytes: StoredSums): ServerData {
  return {
    dialect: postgresDialect,
    read: (steps) => runSteps(database.run, steps),
    write: (tenant, work, { isDurable = true } = {}) =>
      database.change(tenant, (run) => runSteps(run, work()), { isDurable }),
    *checkQuota(tenant, stored, added, storedBytesMax, code) {
      checkQuota(yield* storedBytes.recent(tenant, stored), added, storedBytesMax, code);
    },
    removeAliasData: (alias) => tryRemoveAliasData(database, alias),
  };
}
