import type { ServerData } from "../server-data.ts";
import type { PostgresDatabase } from "./database.ts";
import { postgresDialect } from "./dialect.ts";
import { removeLater, runSteps } from "./steps.ts";
import { checkRoom, type StoredSums } from "./stored-bytes.ts";

/** The data of servers in Postgres. Each write has locked its tenant. */
export function postgresServerData(database: PostgresDatabase, storedBytes: StoredSums): ServerData {
  return {
    dialect: postgresDialect,
    read: (steps) => runSteps(database.run, steps),
    write: (tenant, work, { isDurable = true } = {}) =>
      database.change(tenant, (run) => runSteps(run, work()), { isDurable }),
    *checkRoom(tenant, stored, added, storedBytesMax, code) {
      checkRoom(yield* storedBytes.lately(tenant, stored), added, storedBytesMax, code);
    },
    removeLeft: (alias) => removeLater(database, alias),
  };
}
