/** The thread of a single collection. Started by `collect.ts`. */
import { parentPort, workerData } from "node:worker_threads";
import { collection, type CollectedStore } from "../collection.ts";
import type { PostgresCollectionTask, PostgresCollectionReport } from "./collect.ts";
import { asStoreFailure, PostgresDatabase } from "./database.ts";
import { postgresDialect } from "./dialect.ts";
import { runSteps, shortWrites } from "./steps.ts";
import { removeLeftovers } from "./tenant-staging.ts";

const { url, order } = workerData as PostgresCollectionTask;
const database = new PostgresDatabase(url);
parentPort!.postMessage(await run(), []);
await database.close();

async function run(): Promise<PostgresCollectionReport> {
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
    removeLeftovers: () => removeLeftovers(database),
    reusableBytes: () => 0,
  };
}
