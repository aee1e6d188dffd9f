import { Worker } from "node:worker_threads";
import type Database from "#better-sqlite3";
import { BerthError } from "../../lib/errors.ts";
import type { Log } from "../../lib/log.ts";
import { fileIdentity } from "./store-files.ts";

export interface DamageTask {
  readonly file: string;
  /** Guards against another file with the same name. */
  readonly identity: string | undefined;
}

const RETRY_MS = 2_000;
/** The maximum share of time for checks, as a check of a large database keeps its disk busy for long. */
const CHECK_SHARE = 0.1;
const workerFile = new URL("./damage-worker.js", import.meta.url);
const resourceLimits = { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1 };

/**
 * Distinguishes a damaged database from a single failed read of the disk, which SQLite reports alike: reads the whole
 * database on a thread, repeatedly until it is intact.
 */
export class Damage {
  readonly #database: Database.Database;
  readonly #order: DamageTask;
  readonly #log: Log | undefined;
  /** Set until the database is known to be intact. */
  #reason: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  #checking: Promise<void> | undefined;
  #isClosed = false;

  constructor(database: Database.Database, log: Log | undefined) {
    this.#database = database;
    this.#order = { file: database.name, identity: fileIdentity(database.name) };
    this.#log = log;
  }

  /** Throws `store_failed` from a failed read until the database was found intact. */
  check(): void {
    if (this.#reason === undefined) return;
    throw new BerthError("store_failed", `${this.#reason}; restore a backup if this persists`);
  }

  /** Call it with an error that damage of the database may have caused. */
  report(error: Error): void {
    if (this.#reason === undefined) {
      this.#log?.error({ err: error }, "the database is damaged, or its disk cannot be read; checking all of it");
      this.#schedule(0);
    }
    this.#reason ??= `the database could not be read: ${error.message}`;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#checking;
  }

  #schedule(waitMs: number): void {
    if (!this.#isClosed) this.#timer = setTimeout(() => void (this.#checking = this.#checkDatabase()), waitMs).unref();
  }

  async #checkDatabase(): Promise<void> {
    const startedAt = performance.now();
    const problem = await findProblem(this.#order).catch((error: Error) => error.message);
    if (problem === undefined) {
      this.#reason = undefined;
      // SQLite may have cached a wrong read.
      this.#database.pragma("shrink_memory");
      this.#log?.info("the whole database was read and is intact");
      return;
    }
    const reason = `the database is damaged: ${problem}`;
    if (this.#reason !== reason) this.#log?.error({ problem }, "the database is damaged: restore a backup");
    this.#reason = reason;
    this.#schedule(Math.max(RETRY_MS, (performance.now() - startedAt) / CHECK_SHARE));
  }
}

/** Undefined if the database is intact. */
function findProblem(order: DamageTask): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(workerFile, { workerData: order, resourceLimits, execArgv: [], env: {} });
    let [isReported, problem]: [boolean, string | undefined] = [false, undefined];
    worker.unref();
    worker.on("message", (reported: string | undefined) => ([isReported, problem] = [true, reported]));
    worker.once("error", reject);
    worker.once("exit", () => (isReported ? resolve(problem) : reject(new Error("it was not completely read"))));
  });
}
