import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { BerthError } from "../../lib/errors.ts";
import type { CollectionOrder, CollectionResult } from "../store.ts";

export interface OrderToThread {
  readonly url: string;
  readonly order: CollectionOrder;
}

/** Its result, or the error that it ended with. */
export type ReportOfThread =
  | { readonly collected: CollectionResult }
  | { readonly code: BerthError["code"]; readonly detail: string };

const workerFile = new URL("./collect-worker.js", import.meta.url);
/** It holds the CIDs of all that one tenant refers to, and some contents at a time, which are outside of this. */
const resourceLimits = { maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 16 };

/** Collections of one process, on a thread: searching everything that a tenant refers to takes seconds. */
export class CollectionThreads {
  readonly #url: string;
  #worker: Worker | undefined;
  #running: Promise<unknown> = Promise.resolve();
  #isOver = false;

  constructor(url: string) {
    this.#url = url;
  }

  /** One after the other. */
  collect(order: CollectionOrder): Promise<CollectionResult> {
    const collecting = this.#running.then(() => this.#collect(order));
    this.#running = collecting.catch(() => {});
    return collecting;
  }

  /** Ends the current collection: the database undoes the step that it is at. */
  async close(): Promise<void> {
    this.#isOver = true;
    await this.#worker?.terminate();
    await this.#running;
  }

  async #collect(order: CollectionOrder): Promise<CollectionResult> {
    if (this.#isOver) throw stopped();
    const workerData: OrderToThread = { url: this.#url, order };
    const worker = new Worker(workerFile, { workerData, resourceLimits, execArgv: [] });
    this.#worker = worker;
    let report: ReportOfThread | undefined;
    worker.on("message", (message: ReportOfThread) => (report = message));
    // Rejects with what it did not catch, such as having no more memory.
    await once(worker, "exit");
    if (!report) throw stopped();
    if ("collected" in report) return report.collected;
    throw new BerthError(report.code, report.detail);
  }
}

function stopped(): BerthError {
  return new BerthError("store_failed", "the collection was ended before it was through; the next one goes on");
}
