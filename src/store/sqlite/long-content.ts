import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { Cid } from "../../lib/cid.ts";
import { identityOf } from "./store-files.ts";

/** Reading more than this takes long enough for others to notice, and SQLite reads a content in one piece. */
export const LONG_FROM_BYTES = 4 * 1024 * 1024;

const workerFile = new URL("./long-content-worker.js", import.meta.url);
/** The bytes stand outside of the heap. */
const resourceLimits = { maxOldGenerationSizeMb: 32, maxYoungGenerationSizeMb: 4 };

export interface LongContentOrder {
  readonly file: string;
  /** Another file under the same name is left alone. */
  readonly identity: string | undefined;
  readonly busyMs: number;
  readonly tenant: string;
  readonly cid: Cid;
}

/** `isSound`: the bytes match their CID. */
export type LongContentReport =
  | { readonly bytes: Uint8Array | undefined; readonly isSound: boolean }
  | { readonly error: { readonly code: string | undefined; readonly message: string } };

/** Reads long contents on a thread each, one after the other, so that calls do not wait for them. */
export class LongContents {
  readonly #file: string;
  readonly #identity: string | undefined;
  readonly #busyMs: number;
  #reading: Promise<unknown> = Promise.resolve();

  constructor(file: string, busyMs: number) {
    this.#file = file;
    this.#identity = identityOf(file);
    this.#busyMs = busyMs;
  }

  /** Undefined where no thread can be had. Rejects with what SQLite throws. */
  read(tenant: string, cid: Cid): Promise<Extract<LongContentReport, { isSound: boolean }> | undefined> {
    const order = { file: this.#file, identity: this.#identity, busyMs: this.#busyMs, tenant, cid };
    const own = this.#reading.then(() => readOnThread(order));
    this.#reading = own.catch(() => {});
    return own;
  }

  async close(): Promise<void> {
    await this.#reading;
  }
}

async function readOnThread(
  order: LongContentOrder,
): Promise<Extract<LongContentReport, { isSound: boolean }> | undefined> {
  let report: LongContentReport | undefined;
  try {
    const worker = new Worker(workerFile, { workerData: order, resourceLimits, execArgv: [], env: {} });
    worker.on("message", (message: LongContentReport) => (report = message));
    await once(worker, "exit");
  } catch {
    return undefined;
  }
  if (report && "error" in report) throw Object.assign(new Error(report.error.message), { code: report.error.code });
  return report;
}
