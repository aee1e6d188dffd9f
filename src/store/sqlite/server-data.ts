import type Database from "#better-sqlite3";
import type { ServerData } from "../server-data.ts";
import { attempt } from "./attempt.ts";
import { sqliteDialect } from "./dialect.ts";
import { inTransaction, removeLater, runSteps } from "./steps.ts";
import type { StoredBytes } from "./stored-bytes.ts";
import type { WriteAheadLog } from "./write-ahead-log.ts";

/** The data of servers in a SQLite file. */
export function sqliteServerData(
  database: Database.Database,
  log: WriteAheadLog,
  storedBytes: StoredBytes,
): ServerData {
  return {
    dialect: sqliteDialect,
    read: async (steps) => attempt(() => runSteps(database, steps)),
    async write(tenant, work, { isDurable = true, mayFill = false } = {}) {
      // Other writes come after those that were asked for before.
      const summing = mayFill ? storedBytes.ready(tenant, "lately") : storedBytes.underWay(tenant);
      if (summing) await summing;
      const change = () => inTransaction(database, work);
      return isDurable ? storedBytes.toldByKind(tenant, log.keep(change)) : log.write(change);
    },
    // oxlint-disable-next-line require-yield -- its sums are known without a statement of its own
    *checkRoom(tenant, stored, added, storedBytesMax, code) {
      storedBytes.check(storedBytes.lately(tenant, stored) + added, storedBytesMax, code);
    },
    removeLeft: (alias) => removeLater(database, log, alias),
  };
}
