import { Worker } from "node:worker_threads";
import { BerthError } from "../../lib/errors.ts";
import type { ClaimedBytes } from "../collection.ts";
import type { CollectionResult, CollectionOrder } from "../store.ts";
import { descriptorOf } from "./scrub.ts";
import { identityOf } from "./store-files.ts";
import type { StoredBytes } from "./stored-bytes.ts";
import type { WriteAheadLog } from "./write-ahead-log.ts";

export interface ThreadOrder {
  readonly file: string;
  /** A descriptor of the file, to be left open. */
  readonly fd: number;
  /** Another file under the same name is left alone. */
  readonly identity: string | undefined;
  readonly busyMs: number;
  readonly order: CollectionOrder;
}

interface Carried {
  readonly collected: CollectionResult;
  /** Nothing is left in the file of tenants that are gone. */
  readonly isErased: boolean;
}

/** The end of a transaction of the thread. */
export interface Wrote {
  readonly wrote: ClaimedBytes | undefined;
}

export type CollectionReport =
  | Carried
  | { readonly stopped: true }
  | { readonly error: { readonly code: string | undefined; readonly message: string } };

const workerFile = new URL("./collect-worker.js", import.meta.url);
/** It holds the CIDs of all that one tenant refers to, and one content at a time, which is outside of this. */
const resourceLimits = { maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 16 };

/**
 * Collections of one process, on a thread: reading everything that a tenant refers to takes seconds. Whenever the thread
 * writes, which it asks for each time, writers here wait for it, and nobody else does.
 */
export class Collections {
  readonly #parts: { readonly file: string; readonly busyMs: number };
  readonly #log: WriteAheadLog;
  readonly #storedBytes: Pick<StoredBytes, "changedAside">;
  #worker: Worker | undefined;
  #running: Promise<unknown> = Promise.resolve();
  #isOver = false;

  constructor(
    parts: { readonly file: string; readonly busyMs: number },
    log: WriteAheadLog,
    storedBytes: Pick<StoredBytes, "changedAside">,
  ) {
    this.#storedBytes = storedBytes;
    this.#parts = parts;
    this.#log = log;
  }

  /** One after the other. */
  async collect(order: CollectionOrder): Promise<CollectionResult> {
    return (await this.#afterOthers(order)).collected;
  }

  /** Overwrites what tenants that are gone have left in the file; false where that has to be tried again. */
  async erase(): Promise<boolean> {
    try {
      return (await this.#afterOthers({ tenants: [], graceMs: 0 })).isErased;
    } catch {
      return false;
    }
  }

  #afterOthers(order: CollectionOrder): Promise<Carried> {
    const collecting = this.#running.then(() => this.#collect(order));
    this.#running = collecting.catch(() => {});
    return collecting;
  }

  /** Ends the current collection at its next step. */
  async close(): Promise<void> {
    this.#isOver = true;
    this.#worker?.postMessage("stop", []);
    await this.#running;
  }

  async #collect(order: CollectionOrder): Promise<Carried> {
    if (this.#isOver) throw stopped();
    const { file } = this.#parts;
    const workerData: ThreadOrder = { ...this.#parts, fd: descriptorOf(file), identity: identityOf(file), order };
    const worker = new Worker(workerFile, { workerData, resourceLimits, execArgv: [], env: {} });
    this.#worker = worker;
    let report: CollectionReport | undefined;
    let fault: unknown;
    let wrote = (_end?: Wrote): void => {};
    worker.on("error", (error) => (fault = error));
    worker.on("message", (message: "write" | Wrote | CollectionReport) => {
      if (message === "write") void this.#write(worker, () => new Promise((resolve) => (wrote = resolve)));
      else if ("wrote" in message) wrote(message);
      else report = message;
    });
    await new Promise<void>((resolve) => {
      worker.once("exit", () => {
        this.#worker = undefined;
        wrote();
        resolve();
      });
    });
    if (!report) throw fault ?? stopped();
    if ("collected" in report) return report;
    if ("stopped" in report) throw stopped();
    throw Object.assign(new Error(report.error.message), { code: report.error.code });
  }

  async #write(worker: Worker, writing: () => Promise<Wrote | undefined>): Promise<void> {
    try {
      await this.#log.writeAside(async () => {
        // It may have ended while this waited for others.
        if (this.#isOver || this.#worker !== worker) return worker.postMessage("stop", []);
        const version = this.#log.version();
        const over = writing();
        worker.postMessage("go", []);
        const end = await over;
        // If the thread ended instead, what a tenant stores is summed anew.
        if (end) this.#storedBytes.changedAside(version, end.wrote?.tenant ?? "", end.wrote?.bytes ?? 0);
      });
    } catch {
      // There is no room for it now.
      worker.postMessage("stop", []);
    }
  }
}

function stopped(): BerthError {
  return new BerthError("store_failed", "the collection was ended before it was through; the next one goes on");
}
