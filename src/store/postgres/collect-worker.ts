/** A thread for one collection; it ends with it. Started by `collect.ts`. */
import { parentPort, workerData } from "node:worker_threads";
import { ALIAS } from "../aliases.ts";
import { collection, type CollectedStore } from "../collection.ts";
import type { OrderToThread, ReportOfThread } from "./collect.ts";
import { asStoreFailure, PostgresDatabase, type RunSql } from "./database.ts";
import { postgresDialect } from "./dialect.ts";
import { removeExpired } from "./state.ts";
import { runSteps, shortWrites } from "./steps.ts";
import { removeLeftovers } from "./tenant-staging.ts";

const { url, order } = workerData as OrderToThread;
const database = new PostgresDatabase(url);
parentPort!.postMessage(await carriedOut(), []);
await database.close();

async function carriedOut(): Promise<ReportOfThread> {
  try {
    return { collected: await collection(collectedStore(), order) };
  } catch (error) {
    const { code, detail } = asStoreFailure(error);
    return { code, detail };
  }
}

function collectedStore(): CollectedStore {
  return {
    dialect: postgresDialect,
    read: (steps) => runSteps(database.run, steps),
    write: (work, claims, isLong = false) =>
      claims
        ? database.change(claims.tenant, (run) => runSteps(run, work()), { isDurable: false, isLong })
        : shortWrites(database)(work),
    async removeExpired() {
      const tenants = await database.run<{ tenant: string }>(
        `SELECT DISTINCT tenant FROM state JOIN state_server AS place ON place.id = server_id
         WHERE expires_at <= (SELECT berth_now()) AND NOT starts_with(tenant, '${ALIAS}')`,
      );
      for (const { tenant } of tenants) {
        const removeSome = (run: RunSql): Promise<number> => removeExpired(run, tenant);
        while ((await database.change(tenant, removeSome, { isDurable: false })) > 0);
      }
    },
    removeLeftovers: () => removeLeftovers(database),
    reusableBytes: () => 0,
  };
}
