import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { BerthError } from "../../lib/errors.ts";
import type { CollectionOptions, CollectionResult } from "../store.ts";

export interface PostgresCollectionTask {
  readonly url: string;
  readonly order: CollectionOptions;
}

export type PostgresCollectionReport =
  | { readonly collected: CollectionResult }
  | { readonly code: BerthError["code"]; readonly detail: string };

const workerFile = new URL("./collect-worker.js", import.meta.url);
/** For the CIDs of everything that one tenant refers to. Buffers of contents are allocated outside the heap. */
const resourceLimits = { maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 16 };

/** Runs the collections of one process on a thread, as scanning everything that a tenant refers to takes seconds. */
export class CollectionThreads {
  readonly #url: string;
  #worker: Worker | undefined;
  #running: Promise<unknown> = Promise.resolve();
  #isClosed = false;

  constructor(url: string) {
    this.#url = url;
  }

  /** Collections are serialized. */
  collect(order: CollectionOptions): Promise<CollectionResult> {
    const collecting = this.#running.then(() => this.#collect(order));
    this.#running = collecting.catch(() => {});
    return collecting;
  }

  /** Ends the current collection. The database rolls back its current step. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#worker?.terminate();
    await this.#running;
  }

  async #collect(order: CollectionOptions): Promise<CollectionResult> {
    if (this.#isClosed) throw stopped();
    const workerData: PostgresCollectionTask = { url: this.#url, order };
    const worker = new Worker(workerFile, { workerData, resourceLimits, execArgv: [] });
    this.#worker = worker;
    let report: PostgresCollectionReport | undefined;
    worker.on("message", (message: PostgresCollectionReport) => (report = message));
    // Rejects with an uncaught error, such as running out of memory.
    await once(worker, "exit");
    if (!report) throw stopped();
    if ("collected" in report) return report.collected;
    throw new BerthError(report.code, report.detail);
  }
}

function stopped(): BerthError {
  return new BerthError("store_failed", "the collection was interrupted; the next one continues it");
}
