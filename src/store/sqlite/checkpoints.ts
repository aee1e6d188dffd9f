import { statfsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { Worker } from "node:worker_threads";
import type Database from "#better-sqlite3";
import { BerthError } from "../../lib/errors.ts";
import { DISK_FULL } from "../../lib/store-failure.ts";
import { identityOf, stampEnd } from "./store-files.ts";

/**
 * Moves SQLite's write-ahead log into the database, which waits for the disk, on a thread of its own: a writer would
 * otherwise do it. Nothing runs while the log is short. A log with an active reader cannot restart; the checkpoint is
 * retried until the reader has ended. The log takes at most a share of the free room on the disk, so that the database
 * can always grow by what the log holds.
 */
export interface CheckpointsOptions {
  /** A longer log is moved into the database. */
  readonly logBytes: number;
  /** Everything written before, and before a checkpoint was wanted, is in the database and on the disk. */
  readonly onComplete: () => void;
  readonly onFailure: (error: CheckpointFailure) => void;
  /** No thread is available: writers wait for checkpoints until there is one again. */
  readonly onGone: (error: unknown) => void;
}

export interface CheckpointOrder {
  readonly file: string;
  /** Another file under the same name is left alone. */
  readonly identity: string | undefined;
  /** A longer log is truncated once it restarts. */
  readonly keptBytes: number;
}

export interface CheckpointFailure {
  /** As SQLite names it. */
  readonly code: string | undefined;
  readonly message: string;
}

export interface CheckpointReport {
  /** The pages of the log, all of which were moved before it restarted; undefined when that failed. */
  readonly pages?: number | undefined;
  readonly error?: CheckpointFailure;
}

/** The delay after a write, and after a checkpoint that could not be whole. */
const LOOK_MS = 500;
const AGAIN_MS = 1_000;
/** The share of the free room on the disk above which a log is moved into the database. */
const ROOM_SHARE = 0.25;
/** A log this short is left alone however little room there is. */
const LEAST_BYTES = 256 * 1024;
/** With less room on the disk, it is checked before each write. */
const SHORT_BYTES = 64 * 1024 * 1024;
const workerFile = new URL("./checkpoint-worker.js", import.meta.url);
/** A checkpoint takes about 7 MB while it runs. */
const resourceLimits = { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1 };

export class Checkpoints {
  /** Pending while the log restarts: writers wait for this, and so not for the lock. */
  pause: Promise<void> | undefined;
  readonly #database: Database.Database;
  readonly #options: CheckpointsOptions;
  readonly #pageBytes: number;
  readonly #identity: string | undefined;
  /** Both statements read a number from shared memory. */
  readonly #state: Database.Statement<[], { readonly log: number }>;
  readonly #version: Database.Statement<[], number>;
  /** The growth of that number that comes from restarting the log. */
  #ownChanges = 0;
  #timer: NodeJS.Timeout | undefined;
  #worker: Worker | undefined;
  #ended: Promise<void> = Promise.resolve();
  readonly #databasePages: Database.Statement<[], number>;
  #isWanted = false;
  /** The pages of the log after the last stamp, while it goes on from there. */
  #stampedPages: number | undefined;
  /** True while there is little room on the disk. */
  #isShort: boolean;
  /** True while no thread is available. */
  #isAlone = false;
  #isOver = false;

  constructor(database: Database.Database, options: CheckpointsOptions) {
    this.#database = database;
    this.#options = options;
    this.#identity = identityOf(database.name);
    this.#state = database.prepare("PRAGMA wal_checkpoint(NOOP)");
    this.#version = database.prepare<[], number>("PRAGMA data_version").pluck();
    this.#pageBytes = database.pragma("page_size", { simple: true }) as number;
    this.#databasePages = database.prepare<[], number>("PRAGMA page_count").pluck();
    this.#isShort = this.#room() < SHORT_BYTES;
    database.pragma("wal_autocheckpoint = 0");
  }

  /**
   * Throws `store_failed` where the log would take the room that the database needs for what the log already holds:
   * then neither could grow, even if room was made elsewhere.
   */
  checkRoom(): void {
    if (!this.#isShort) return;
    const needed = this.#databasePages.get()! * this.#pageBytes - statSync(this.#database.name).size;
    const room = this.#room();
    this.#isShort = room < SHORT_BYTES;
    if (room >= Math.max(needed, 0) + LEAST_BYTES) return;
    this.want();
    throw new BerthError("store_failed", DISK_FULL);
  }

  /** A number that changes with each commit of another process, and with nothing else. */
  version(): number {
    return this.#version.get()! - this.#ownChanges;
  }

  /** Notes that something was written. */
  wrote(): void {
    if (!this.#isOver) this.#timer ??= setTimeout(() => this.#look(), LOOK_MS).unref();
  }

  /** Asks for a checkpoint, however short the log is; retries until one is complete. */
  want(): void {
    this.#isWanted = true;
    this.#again(0);
  }

  /** Waits for the checkpoint that is under way. */
  async close(): Promise<void> {
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#worker?.ref();
    await this.#ended;
  }

  #again(waitMs: number): void {
    clearTimeout(this.#timer);
    if (!this.#isOver) this.#timer = setTimeout(() => this.#look(), waitMs).unref();
  }

  #look(): void {
    this.#timer = undefined;
    if (this.#worker) return;
    this.#isShort = this.#room() < SHORT_BYTES;
    if (this.#isWanted || this.#isLong()) this.#start();
  }

  /** Makes a checkpoint on this thread, which delays everything else here. */
  #checkpointHere(): void {
    let report: CheckpointReport;
    try {
      const [state] = this.#database.pragma("wal_checkpoint(PASSIVE)") as [{ log: number; checkpointed: number }];
      report = { pages: state.checkpointed < state.log ? undefined : state.log };
    } catch (error) {
      const { code, message } = error as { code?: string; message: string };
      report = { error: { code, message } };
    }
    this.#isWanted = report.pages === undefined;
    this.#hear(report);
  }

  #isLong(): boolean {
    // If unknown, the next write checks again.
    const bytes = (this.#pages() ?? 0) * this.#pageBytes;
    return bytes > this.#options.logBytes || (bytes > LEAST_BYTES && bytes > this.#room() * ROOM_SHARE);
  }

  /** The free bytes on the disk. */
  #room(): number {
    try {
      const { bavail, bsize } = statfsSync(dirname(this.#database.name));
      return bavail * bsize;
    } catch {
      return Infinity;
    }
  }

  /** The pages of the log; undefined while this very connection reads. */
  #pages(): number | undefined {
    try {
      return this.#state.get()?.log;
    } catch {
      return undefined;
    }
  }

  #start(): void {
    // Once for what the log holds: a checkpoint that a reader delays is retried each second.
    if (this.#pages() !== this.#stampedPages) stampEnd(this.#database);
    this.#stampedPages = this.#pages();
    const wasWanted = this.#isWanted;
    this.#isWanted = false;
    const { logBytes } = this.#options;
    const workerData: CheckpointOrder = {
      file: this.#database.name,
      identity: this.#identity,
      keptBytes: this.#room() * ROOM_SHARE < logBytes ? 0 : logBytes,
    };
    let report: CheckpointReport | undefined;
    let fault: unknown;
    let resume = (): void => {};
    let before: { readonly pages?: number | undefined; readonly version: number } = { version: 0 };
    try {
      this.#worker = new Worker(workerFile, { workerData, resourceLimits, execArgv: [], env: {} });
    } catch (error) {
      this.#isWanted = wasWanted;
      this.#giveUp(error);
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
      before = { pages: this.#pages(), version: this.#version.get()! };
      this.pause = new Promise((resolve) => (resume = resolve));
      // Waiting for it may be all that the process still does.
      worker.ref();
      worker.postMessage("paused", []);
    });
    this.#ended = new Promise((resolve) => {
      worker.once("exit", () => {
        const isComplete = report?.pages !== undefined;
        if (isComplete && report?.pages === before.pages) this.#discount(before.version);
        this.#worker = this.pause = undefined;
        resume();
        if (isComplete) this.#stampedPages = undefined;
        else this.#isWanted ||= wasWanted;
        if (report) {
          this.#isAlone = false;
          this.#hear(report);
        } else this.#giveUp(fault);
        resolve();
      });
    });
  }

  /**
   * Discounts the restart of the log. Writing paused until then; if nobody has written since, nothing else has changed.
   */
  #discount(before: number): void {
    const version = this.#version.get()!;
    if (this.#pages() === 1) this.#ownChanges += version - before;
  }

  #hear({ pages, error }: CheckpointReport): void {
    const { onComplete, onFailure } = this.#options;
    if (pages !== undefined) {
      if (!this.#isWanted) onComplete();
      // Much may have been written meanwhile.
      this.wrote();
      return;
    }
    if (error && !error.code?.startsWith("SQLITE_BUSY")) onFailure(error);
    this.#again(AGAIN_MS);
  }

  #giveUp(error: unknown): void {
    if (!this.#isAlone) this.#options.onGone(error);
    this.#isAlone = true;
    this.#checkpointHere();
  }
}
