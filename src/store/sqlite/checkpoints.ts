import { statfsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { Worker } from "node:worker_threads";
import type Database from "#better-sqlite3";
import { BerthError } from "../../lib/errors.ts";
import { DISK_FULL } from "../../lib/store-failure.ts";
import { fileIdentity, tryStampLog } from "./store-files.ts";

/**
 * Moves SQLite's write-ahead log into the database on a thread of its own, because that waits for the disk, and a
 * writer would otherwise do it. Nothing runs while the log is short. A log with an active reader cannot restart; the
 * checkpoint is retried until the reader has ended. The log takes at most a share of the free disk space, so that the
 * database can always grow by the content of the log.
 */
export interface CheckpointsOptions {
  /** A longer log is moved into the database. */
  readonly logBytes: number;
  /** Called when everything that was written before the checkpoint was requested is in the database on disk. */
  readonly onComplete: () => void;
  readonly onFailure: (error: CheckpointFailure) => void;
  /** Called when no thread is available: until there is one again, writers wait for checkpoints. */
  readonly onGone: (error: unknown) => void;
}

export interface CheckpointTask {
  readonly file: string;
  /** Guards against another file with the same name. */
  readonly identity: string | undefined;
  /** A longer log is truncated once it restarts. */
  readonly keptBytes: number;
}

export interface CheckpointFailure {
  readonly code: string | undefined;
  readonly message: string;
}

export interface CheckpointReport {
  /** The number of log pages, all of which were moved before it restarted; undefined on failure. */
  readonly pages?: number | undefined;
  readonly error?: CheckpointFailure;
}

/** The delay after a write, and after an incomplete checkpoint. */
const CHECK_DELAY_MS = 500;
const RETRY_MS = 1_000;
/** A log that takes a larger share of the free disk space is moved into the database. */
const LOG_SHARE = 0.25;
/** A shorter log is left alone, regardless of the free space. */
const MIN_LOG_BYTES = 256 * 1024;
/** With less free space, it is checked before each write. */
const SCARCE_BYTES = 64 * 1024 * 1024;
const workerFile = new URL("./checkpoint-worker.js", import.meta.url);
/** A checkpoint takes about 7 MB while it runs. */
const resourceLimits = { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1 };

export class Checkpoints {
  /** Pending while the log restarts. Writers await it, instead of waiting for the lock. */
  pause: Promise<void> | undefined;
  readonly #database: Database.Database;
  readonly #options: CheckpointsOptions;
  readonly #pageBytes: number;
  readonly #identity: string | undefined;
  /** Both statements only read a number from shared memory. */
  readonly #state: Database.Statement<[], { readonly log: number }>;
  readonly #version: Database.Statement<[], number>;
  /** By how much restarts of the log have increased that number. */
  #ownChanges = 0;
  #timer: NodeJS.Timeout | undefined;
  #worker: Worker | undefined;
  #ended: Promise<void> = Promise.resolve();
  readonly #databasePages: Database.Statement<[], number>;
  #isRequested = false;
  /** The number of log pages after the last stamp, until the log restarts. */
  #stampedPages: number | undefined;
  /** True while disk space is scarce. */
  #isScarce: boolean;
  /** True while no thread is available. */
  #isThreadUnavailable = false;
  #isClosed = false;

  constructor(database: Database.Database, options: CheckpointsOptions) {
    this.#database = database;
    this.#options = options;
    this.#identity = fileIdentity(database.name);
    this.#state = database.prepare("PRAGMA wal_checkpoint(NOOP)");
    this.#version = database.prepare<[], number>("PRAGMA data_version").pluck();
    this.#pageBytes = database.pragma("page_size", { simple: true }) as number;
    this.#databasePages = database.prepare<[], number>("PRAGMA page_count").pluck();
    this.#isScarce = this.#freeBytes() < SCARCE_BYTES;
    database.pragma("wal_autocheckpoint = 0");
  }

  /**
   * Throws `store_failed` if the log would take the space that the database needs for the content of the log: then
   * neither could grow, even after space was freed elsewhere.
   */
  checkFreeSpace(): void {
    if (!this.#isScarce) return;
    const needed = this.#databasePages.get()! * this.#pageBytes - statSync(this.#database.name).size;
    const freeBytes = this.#freeBytes();
    this.#isScarce = freeBytes < SCARCE_BYTES;
    if (freeBytes >= Math.max(needed, 0) + MIN_LOG_BYTES) return;
    this.request();
    throw new BerthError("store_failed", DISK_FULL);
  }

  /** A number that changes with each commit of another process, and only then. */
  version(): number {
    return this.#version.get()! - this.#ownChanges;
  }

  /** Call it after a write. */
  noteWrite(): void {
    if (!this.#isClosed) this.#timer ??= setTimeout(() => this.#check(), CHECK_DELAY_MS).unref();
  }

  /** Requests a checkpoint, however short the log is; retries until one is complete. */
  request(): void {
    this.#isRequested = true;
    this.#schedule(0);
  }

  /** Waits for the running checkpoint. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#worker?.ref();
    await this.#ended;
  }

  #schedule(waitMs: number): void {
    clearTimeout(this.#timer);
    if (!this.#isClosed) this.#timer = setTimeout(() => this.#check(), waitMs).unref();
  }

  #check(): void {
    this.#timer = undefined;
    if (this.#worker) return;
    this.#isScarce = this.#freeBytes() < SCARCE_BYTES;
    if (this.#isRequested || this.#isLong()) this.#start();
  }

  /** Runs a checkpoint on this thread, which blocks everything else here. */
  #checkpointHere(): void {
    let report: CheckpointReport;
    try {
      const [state] = this.#database.pragma("wal_checkpoint(PASSIVE)") as [{ log: number; checkpointed: number }];
      report = { pages: state.checkpointed < state.log ? undefined : state.log };
    } catch (error) {
      const { code, message } = error as { code?: string; message: string };
      report = { error: { code, message } };
    }
    this.#isRequested = report.pages === undefined;
    this.#handle(report);
  }

  #isLong(): boolean {
    // If unknown, the next write checks again.
    const bytes = (this.#pages() ?? 0) * this.#pageBytes;
    return bytes > this.#options.logBytes || (bytes > MIN_LOG_BYTES && bytes > this.#freeBytes() * LOG_SHARE);
  }

  #freeBytes(): number {
    try {
      const { bavail, bsize } = statfsSync(dirname(this.#database.name));
      return bavail * bsize;
    } catch {
      return Infinity;
    }
  }

  /** The number of log pages; undefined while this connection itself reads. */
  #pages(): number | undefined {
    try {
      return this.#state.get()?.log;
    } catch {
      return undefined;
    }
  }

  #start(): void {
    // Stamp the same content of the log only once: a checkpoint that a reader delays is retried each second.
    if (this.#pages() !== this.#stampedPages) tryStampLog(this.#database);
    this.#stampedPages = this.#pages();
    const wasRequested = this.#isRequested;
    this.#isRequested = false;
    const { logBytes } = this.#options;
    const workerData: CheckpointTask = {
      file: this.#database.name,
      identity: this.#identity,
      keptBytes: this.#freeBytes() * LOG_SHARE < logBytes ? 0 : logBytes,
    };
    let report: CheckpointReport | undefined;
    let fault: unknown;
    let resume = (): void => {};
    let pauseState: { readonly pages?: number | undefined; readonly version: number } = { version: 0 };
    try {
      this.#worker = new Worker(workerFile, { workerData, resourceLimits, execArgv: [], env: {} });
    } catch (error) {
      this.#isRequested = wasRequested;
      this.#checkpointWithoutThread(error);
      return;
    }
    const worker = this.#worker;
    worker.unref();
    worker.on("error", (error) => (fault = error));
    worker.on("message", (message: "pause" | CheckpointReport) => {
      if (message !== "pause") {
        report = message;
        return;
      }
      pauseState = { pages: this.#pages(), version: this.#version.get()! };
      this.pause = new Promise((resolve) => (resume = resolve));
      // The process may have nothing else to do than to wait for this.
      worker.ref();
      worker.postMessage("paused", []);
    });
    this.#ended = new Promise((resolve) => {
      worker.once("exit", () => {
        const isComplete = report?.pages !== undefined;
        if (isComplete && report?.pages === pauseState.pages) this.#discount(pauseState.version);
        this.#worker = this.pause = undefined;
        resume();
        if (isComplete) this.#stampedPages = undefined;
        else this.#isRequested ||= wasRequested;
        if (report) {
          this.#isThreadUnavailable = false;
          this.#handle(report);
        } else this.#checkpointWithoutThread(fault);
        resolve();
      });
    });
  }

  /** Discounts the restart of the log, if nothing was written since: writing was paused until then. */
  #discount(versionBefore: number): void {
    const version = this.#version.get()!;
    if (this.#pages() === 1) this.#ownChanges += version - versionBefore;
  }

  #handle({ pages, error }: CheckpointReport): void {
    const { onComplete, onFailure } = this.#options;
    if (pages !== undefined) {
      if (!this.#isRequested) onComplete();
      // Much may have been written meanwhile.
      this.noteWrite();
      return;
    }
    if (error && !error.code?.startsWith("SQLITE_BUSY")) onFailure(error);
    this.#schedule(RETRY_MS);
  }

  #checkpointWithoutThread(error: unknown): void {
    if (!this.#isThreadUnavailable) this.#options.onGone(error);
    this.#isThreadUnavailable = true;
    this.#checkpointHere();
  }
}
