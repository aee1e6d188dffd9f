import { Worker } from "node:worker_threads";
import type Database from "#better-sqlite3";
import { BerthError } from "../../lib/errors.ts";
import type { Log } from "../../lib/log.ts";
import { identityOf } from "./store-files.ts";

export interface DamageOrder {
  readonly file: string;
  /** Another file under the same name proves nothing. */
  readonly identity: string | undefined;
}

const AGAIN_MS = 2_000;
/** The share of time spent on checking: a large database keeps its disk busy for long. */
const LOOKING_SHARE = 0.1;
const workerFile = new URL("./damage-worker.js", import.meta.url);
const resourceLimits = { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1 };

/**
 * Tells a damaged database from a disk that failed one read, which SQLite reports alike: the whole database is read on
 * a thread, and again until it is found whole.
 */
export class Damage {
  readonly #database: Database.Database;
  readonly #order: DamageOrder;
  readonly #log: Log | undefined;
  /** Set until the database is known to be whole. */
  #reason: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | undefined;
  #isOver = false;

  constructor(database: Database.Database, log: Log | undefined) {
    this.#database = database;
    this.#order = { file: database.name, identity: identityOf(database.name) };
    this.#log = log;
  }

  /** Throws `store_failed` from a failed read until the database was found whole. */
  check(): void {
    if (this.#reason === undefined) return;
    throw new BerthError("store_failed", `${this.#reason}; restore a backup if this persists`);
  }

  /** Notes an error that the content of the database may have caused. */
  heard(error: Error): void {
    if (this.#reason === undefined) {
      this.#log?.error({ err: error }, "the database is damaged, or its disk cannot be read; all of it is read now");
      this.#lookIn(0);
    }
    this.#reason ??= `the database could not be read: ${error.message}`;
  }

  async close(): Promise<void> {
    this.#isOver = true;
    clearTimeout(this.#timer);
    await this.#looking;
  }

  #lookIn(waitMs: number): void {
    if (!this.#isOver) this.#timer = setTimeout(() => void (this.#looking = this.#look()), waitMs).unref();
  }

  async #look(): Promise<void> {
    const begun = performance.now();
    const problem = await findProblem(this.#order).catch((error: Error) => error.message);
    if (problem === undefined) {
      this.#reason = undefined;
      // A wrong read may be cached.
      this.#database.pragma("shrink_memory");
      this.#log?.info("the whole database could be read, and it is intact");
      return;
    }
    const isNew = `the database is damaged: ${problem}`;
    if (this.#reason !== isNew) this.#log?.error({ problem }, "the database is damaged: restore a backup");
    this.#reason = isNew;
    this.#lookIn(Math.max(AGAIN_MS, (performance.now() - begun) / LOOKING_SHARE));
  }
}

/** Undefined for a sound database. */
function findProblem(order: DamageOrder): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(workerFile, { workerData: order, resourceLimits, execArgv: [], env: {} });
    let [isSaid, problem]: [boolean, string | undefined] = [false, undefined];
    worker.unref();
    worker.on("message", (said: string | undefined) => ([isSaid, problem] = [true, said]));
    worker.once("error", reject);
    worker.once("exit", () => (isSaid ? resolve(problem) : reject(new Error("it was not read to the end"))));
  });
}
