/** A thread for one collection; it ends with it. Started by `collect.ts`. */
import { parentPort, workerData } from "node:worker_threads";
import type { OrderToThread, ReportOfThread } from "./collect.ts";
import { collection } from "./collection.ts";
import { asStoreFailure, PostgresDatabase } from "./database.ts";

const { url, order } = workerData as OrderToThread;
const database = new PostgresDatabase(url);
parentPort!.postMessage(await carriedOut(), []);
await database.close();

async function carriedOut(): Promise<ReportOfThread> {
  try {
    return { collected: await collection(database, order) };
  } catch (error) {
    const { code, detail } = asStoreFailure(error);
    return { code, detail };
  }
}
