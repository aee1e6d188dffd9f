/** A thread for one collection; it ends with it. Started by `collect.ts`. */
import { setTimeout as pause } from "node:timers/promises";
import { parentPort, workerData } from "node:worker_threads";
import Database from "#better-sqlite3";
import { collection, type CollectedStore } from "../collection.ts";
import type { CollectionReport, ThreadOrder, Wrote } from "./collect.ts";
import { sqliteDialect } from "./dialect.ts";
import { MUST_SCRUB, scrub, SCRUBBING } from "./scrub.ts";
import { inTransaction, runStepsApart } from "./steps.ts";
import { identityOf, moved } from "./store-files.ts";
import { removeLeftovers } from "./tenant-staging.ts";
import { Stopped, type Turns } from "./step-schedule.ts";

const { file, fd, identity, busyMs, order } = workerData as ThreadOrder;
const port = parentPort!;
/** After work of this length the thread rests for as long, so that it never takes more than half of a processor. */
const STRETCH_MS = 5;

port.postMessage(await carriedOut());
port.close();

async function carriedOut(): Promise<CollectionReport> {
  let database: Database.Database | undefined;
  try {
    database = new Database(file, { fileMustExist: true, timeout: busyMs });
    if (identityOf(file) !== identity) throw moved();
    database.pragma("synchronous = NORMAL");
    database.pragma("foreign_keys = ON");
    database.pragma("temp_store = MEMORY");
    // What is removed is overwritten, too.
    database.pragma("secure_delete = ON");
    // The starting thread has the log moved into the database, on a thread for that.
    database.pragma("wal_autocheckpoint = 0");
    const own = turns();
    const collected = await collection(collectedStore(database, own), order);
    return { collected, isErased: order.isTrial || (await erased(database, own)) };
  } catch (error) {
    if (error instanceof Stopped) return { stopped: true };
    const { code, message } = error as { code?: string; message: string };
    return { error: { code, message } };
  } finally {
    database?.close();
  }
}

function collectedStore(database: Database.Database, own: Turns): CollectedStore {
  const write: CollectedStore["write"] = (work, claims) => own.write(() => inTransaction(database, work), claims);
  return {
    dialect: sqliteDialect,
    read: (steps) => runStepsApart(database, steps, () => own.rest()),
    write,
    removeLeftovers: () => removeLeftovers(database, write),
    reusableBytes: () =>
      ["freelist_count", "page_size"]
        .map((name) => database.pragma(name, { simple: true }) as number)
        .reduce((pages, bytes) => pages * bytes),
  };
}

/**
 * True if nothing is left in the file of tenants that are gone. A deletion in the meantime leaves its own mark, so that
 * the next collection does this again.
 */
async function erased(database: Database.Database, own: Turns): Promise<boolean> {
  const through = database.prepare<[], number>("SELECT through FROM scrubbed").pluck();
  if (through.get()! > MUST_SCRUB) return true;
  const set = (sql: string): Promise<unknown> => own.write(() => database.prepare<[]>(sql).run());
  await set(`UPDATE scrubbed SET through = ${SCRUBBING}`);
  if (!(await scrub(file, fd, busyMs, own))) return false;
  const latest = "(SELECT max(1, coalesce(max(id), 1)) FROM name_change WHERE kind = 'tenant')";
  await set(`UPDATE scrubbed SET through = ${latest} WHERE through = ${SCRUBBING}`);
  return through.get()! > MUST_SCRUB;
}

function turns(): Turns {
  let since = performance.now();
  let isStopped = false;
  let answered = (): void => {};
  port.on("message", (message: "go" | "stop") => {
    isStopped ||= message === "stop";
    answered();
  });
  const wait = async (ms: number): Promise<void> => {
    await pause(ms);
    if (isStopped) throw new Stopped();
    since = performance.now();
  };
  const rest = async (): Promise<void> => {
    const worked = performance.now() - since;
    if (worked >= STRETCH_MS) await wait(worked);
  };
  return {
    rest,
    pause: wait,
    async write(work, claims) {
      await rest();
      const answer = new Promise<void>((resolve) => (answered = resolve));
      port.postMessage("write");
      await answer;
      if (isStopped) throw new Stopped();
      try {
        return await work();
      } finally {
        port.postMessage({ wrote: claims } satisfies Wrote);
      }
    },
  };
}
