import { Worker } from "node:worker_threads";
import { BerthError } from "../../lib/errors.ts";
import type { ClaimedBytes } from "../collection.ts";
import type { CollectionResult, CollectionOptions } from "../store.ts";
import { openDescriptor } from "./scrub.ts";
import { fileIdentity } from "./store-files.ts";
import type { StoredBytes } from "./stored-bytes.ts";
import type { WriteAheadLog } from "./write-ahead-log.ts";

export interface CollectionTask {
  readonly file: string;
  /** A descriptor of the file, to be left open. */
  readonly fd: number;
  /** Guards against another file with the same name. */
  readonly identity: string | undefined;
  readonly busyMs: number;
  readonly order: CollectionOptions;
}

interface CollectionOutcome {
  readonly collected: CollectionResult;
  /** True if no remains of deleted tenants are in the file. */
  readonly isErased: boolean;
}

/** The end of a transaction of the thread. */
export interface WriteEnd {
  readonly wrote: ClaimedBytes | undefined;
}

export type CollectionReport =
  | CollectionOutcome
  | { readonly stopped: true }
  | { readonly error: { readonly code: string | undefined; readonly message: string } };

const workerFile = new URL("./collect-worker.js", import.meta.url);
/** For the CIDs of everything that one tenant refers to. Buffers of contents are allocated outside the heap. */
const resourceLimits = { maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 16 };

/**
 * Runs the collections of one process on a thread, because reading everything that a tenant refers to takes seconds.
 * The thread asks for permission before each write, during which writers here wait for it; nothing else does.
 */
export class Collections {
  readonly #parts: { readonly file: string; readonly busyMs: number };
  readonly #log: WriteAheadLog;
  readonly #storedBytes: Pick<StoredBytes, "changedByThread">;
  #worker: Worker | undefined;
  #running: Promise<unknown> = Promise.resolve();
  #isClosed = false;

  constructor(
    parts: { readonly file: string; readonly busyMs: number },
    log: WriteAheadLog,
    storedBytes: Pick<StoredBytes, "changedByThread">,
  ) {
    this.#storedBytes = storedBytes;
    this.#parts = parts;
    this.#log = log;
  }

  /** Collections are serialized. */
  async collect(order: CollectionOptions): Promise<CollectionResult> {
    return (await this.#enqueue(order)).collected;
  }

  /** Overwrites the remains of deleted tenants in the file. Resolves with false if that has to be repeated. */
  async erase(): Promise<boolean> {
    try {
      return (await this.#enqueue({ tenants: [], graceMs: 0 })).isErased;
    } catch {
      return false;
    }
  }

  #enqueue(order: CollectionOptions): Promise<CollectionOutcome> {
    const collecting = this.#running.then(() => this.#collect(order));
    this.#running = collecting.catch(() => {});
    return collecting;
  }

  /** Ends the current collection at its next step. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#worker?.postMessage("stop", []);
    await this.#running;
  }

  async #collect(order: CollectionOptions): Promise<CollectionOutcome> {
    if (this.#isClosed) throw stopped();
    const { file } = this.#parts;
    const workerData: CollectionTask = {
      ...this.#parts,
      fd: openDescriptor(file),
      identity: fileIdentity(file),
      order,
    };
    const worker = new Worker(workerFile, { workerData, resourceLimits, execArgv: [], env: {} });
    this.#worker = worker;
    let report: CollectionReport | undefined;
    let fault: unknown;
    let onWrote = (_end?: WriteEnd): void => {};
    worker.on("error", (error) => (fault = error));
    worker.on("message", (message: "write" | WriteEnd | CollectionReport) => {
      if (message === "write") void this.#write(worker, () => new Promise((resolve) => (onWrote = resolve)));
      else if ("wrote" in message) onWrote(message);
      else report = message;
    });
    await new Promise<void>((resolve) => {
      worker.once("exit", () => {
        this.#worker = undefined;
        onWrote();
        resolve();
      });
    });
    if (!report) throw fault ?? stopped();
    if ("collected" in report) return report;
    if ("stopped" in report) throw stopped();
    throw Object.assign(new Error(report.error.message), { code: report.error.code });
  }

  async #write(worker: Worker, writing: () => Promise<WriteEnd | undefined>): Promise<void> {
    try {
      await this.#log.writeFromThread(async () => {
        // The thread may have ended while this waited for other writers.
        if (this.#isClosed || this.#worker !== worker) return worker.postMessage("stop", []);
        const version = this.#log.version();
        const ended = writing();
        worker.postMessage("go", []);
        const end = await ended;
        // If the thread ended instead, the sums of what tenants store are computed again.
        if (end) this.#storedBytes.changedByThread(version, end.wrote?.tenant ?? "", end.wrote?.bytes ?? 0);
      });
    } catch {
      // There is currently no disk space for it.
      worker.postMessage("stop", []);
    }
  }
}

function stopped(): BerthError {
  return new BerthError("store_failed", "the collection was interrupted; the next one continues it");
}
