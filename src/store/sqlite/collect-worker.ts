/** The thread of a single collection. Started by `collect.ts`. */
import { setTimeout as pause } from "node:timers/promises";
import { parentPort, workerData } from "node:worker_threads";
import Database from "#better-sqlite3";
import { collection, type CollectedStore } from "../collection.ts";
import type { CollectionReport, CollectionTask, WriteEnd } from "./collect.ts";
import { sqliteDialect } from "./dialect.ts";
import { MUST_SCRUB, scrub, SCRUBBING } from "./scrub.ts";
import { Stopped, type StepSchedule } from "./step-schedule.ts";
import { inTransaction, runStepsWithRests } from "./steps.ts";
import { fileIdentity, filesMoved } from "./store-files.ts";
import { removeLeftovers } from "./tenant-staging.ts";

const { file, fd, identity, busyMs, order } = workerData as CollectionTask;
const port = parentPort!;
/** After work of this length, the thread pauses for as long, so that it uses at most half of a CPU. */
const WORK_MS = 5;

port.postMessage(await run());
port.close();

async function run(): Promise<CollectionReport> {
  let database: Database.Database | undefined;
  try {
    database = new Database(file, { fileMustExist: true, timeout: busyMs });
    if (fileIdentity(file) !== identity) throw filesMoved();
    database.pragma("synchronous = NORMAL");
    database.pragma("foreign_keys = ON");
    database.pragma("temp_store = MEMORY");
    // Removed data is overwritten.
    database.pragma("secure_delete = ON");
    // The starting thread moves the log into the database, on a thread of its own.
    database.pragma("wal_autocheckpoint = 0");
    const schedule = createSchedule();
    const collected = await collection(collectedStore(database, schedule), order);
    return { collected, isErased: order.isTrial || (await eraseRemains(database, schedule)) };
  } catch (error) {
    if (error instanceof Stopped) return { stopped: true };
    const { code, message } = error as { code?: string; message: string };
    return { error: { code, message } };
  } finally {
    database?.close();
  }
}

function collectedStore(database: Database.Database, schedule: StepSchedule): CollectedStore {
  const write: CollectedStore["write"] = (work, claims) => schedule.write(() => inTransaction(database, work), claims);
  return {
    dialect: sqliteDialect,
    read: (steps) => runStepsWithRests(database, steps, () => schedule.rest()),
    write,
    removeLeftovers: () => removeLeftovers(database, write),
    reusableBytes: () =>
      ["freelist_count", "page_size"]
        .map((name) => database.pragma(name, { simple: true }) as number)
        .reduce((pages, bytes) => pages * bytes),
  };
}

/**
 * Resolves with true if no remains of deleted tenants are in the file. A concurrent deletion sets its own mark, so that
 * the next collection repeats this.
 */
async function eraseRemains(database: Database.Database, schedule: StepSchedule): Promise<boolean> {
  const through = database.prepare<[], number>("SELECT through FROM scrubbed").pluck();
  if (through.get()! > MUST_SCRUB) return true;
  const update = (sql: string): Promise<unknown> => schedule.write(() => database.prepare<[]>(sql).run());
  await update(`UPDATE scrubbed SET through = ${SCRUBBING}`);
  if (!(await scrub(file, fd, busyMs, schedule))) return false;
  const latest = "(SELECT max(1, coalesce(max(id), 1)) FROM name_change WHERE kind = 'tenant')";
  await update(`UPDATE scrubbed SET through = ${latest} WHERE through = ${SCRUBBING}`);
  return through.get()! > MUST_SCRUB;
}

function createSchedule(): StepSchedule {
  let since = performance.now();
  let isStopped = false;
  let onAnswer = (): void => {};
  port.on("message", (message: "go" | "stop") => {
    isStopped ||= message === "stop";
    onAnswer();
  });
  const wait = async (ms: number): Promise<void> => {
    await pause(ms);
    if (isStopped) throw new Stopped();
    since = performance.now();
  };
  const rest = async (): Promise<void> => {
    const worked = performance.now() - since;
    if (worked >= WORK_MS) await wait(worked);
  };
  return {
    rest,
    pause: wait,
    async write(work, claims) {
      await rest();
      const answer = new Promise<void>((resolve) => (onAnswer = resolve));
      port.postMessage("write");
      await answer;
      if (isStopped) throw new Stopped();
      try {
        return await work();
      } finally {
        port.postMessage({ wrote: claims } satisfies WriteEnd);
      }
    },
  };
}
