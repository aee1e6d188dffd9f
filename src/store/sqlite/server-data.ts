import type Database from "#better-sqlite3";
import type { ServerData } from "../server-data.ts";
import { attempt } from "./attempt.ts";
import { sqliteDialect } from "./dialect.ts";
import { inTransaction, tryRemoveAliasData, runSteps } from "./steps.ts";
import type { StoredBytes } from "./stored-bytes.ts";
import type { WriteAheadLog } from "./write-ahead-log.ts";

export function sqliteServerData(
  database: Database.Database,
  log: WriteAheadLog,
  storedBytes: StoredBytes,
): ServerData {
  return {
    dialect: sqliteDialect,
    read: async (steps) => attempt(() => runSteps(database, steps)),
    async write(tenant, work, { isDurable = true, mayExceedQuota = false } = {}) {
      // Wait for a sum in progress, so that writes stay in order.
      const summing = mayExceedQuota ? storedBytes.ready(tenant, "recent") : storedBytes.pendingSum(tenant);
      if (summing) await summing;
      const change = () => inTransaction(database, work);
      return isDurable ? storedBytes.withUsage(tenant, log.writeDurably(change)) : log.write(change);
    },
    // oxlint-disable-next-line require-yield -- its sums are known without a statement of its own
    *checkQuota(tenant, stored, added, storedBytesMax, code) {
      storedBytes.check(storedBytes.recent(tenant, stored) + added, storedBytesMax, code);
    },
    removeAliasData: (alias) => tryRemoveAliasData(database, log, alias),
  };
}
