import { closeSync, fdatasync, openSync } from "node:fs";
import type Database from "#better-sqlite3";
import { BerthError } from "../../lib/errors.ts";
import type { Log } from "../../lib/log.ts";
import { toStoreFailure } from "../../lib/store-failure.ts";
import { Checkpoints, type CheckpointFailure } from "./checkpoints.ts";
import { Damage } from "./damage.ts";
import { OpenedFiles } from "./store-files.ts";

/**
 * Writes to the SQLite file. A commit goes into the log without waiting for the disk. Durable commits are then flushed,
 * and a long log is moved into the database, while calls continue.
 */
export class WriteAheadLog {
  readonly #checkpoints: Checkpoints;
  readonly #durability: Durability;
  readonly #damage: Damage;
  readonly #log: Log | undefined;
  /** Pending while another thread of this process writes: a second writer would block on the lock. */
  #otherWrites: Promise<void> | undefined;
  #isCheckpointFailing = false;

  constructor(database: Database.Database, logBytes: number, log: Log | undefined) {
    this.#log = log;
    this.#damage = new Damage(database, log);
    this.#durability = new Durability(database.name, (error, isNew) => {
      if (isNew)
        log?.error({ err: error }, "the disk failed: recent writes are being repeated, and a power cut may undo them");
      // This moves the content of the log into the database, which writes it to disk again.
      this.#checkpoints.request();
    });
    this.#checkpoints = new Checkpoints(database, {
      logBytes,
      onComplete: () => this.#onComplete(),
      onFailure: (error) => this.#onFailure(error),
      onGone: (error) =>
        log?.error({ err: error }, "no thread is available for checkpoints of the store; writes wait for them"),
    });
  }

  /**
   * Commits of `work` survive the end of this process immediately, and a power cut soon. Rejects with `store_failed`.
   */
  async write<T>(work: () => T | Promise<T>): Promise<T> {
    for (let pause; (pause = this.#checkpoints.pause ?? this.#otherWrites);) await pause;
    try {
      this.#checkpoints.checkFreeSpace();
      return await work();
    } catch (error) {
      this.#handleError(error);
      throw toStoreFailure(error);
    } finally {
      this.#checkpoints.noteWrite();
    }
  }

  /** The same, but on disk when it resolves. Rejects with `store_uncertain` if it was committed but may be lost. */
  async writeDurably<T>(work: () => T | Promise<T>): Promise<T> {
    this.#durability.check();
    const result = await this.write(work);
    await this.#durability.flush();
    return result;
  }

  /** The same as `write` for commits of another thread: writes of this thread wait until it has finished. */
  writeFromThread<T>(work: () => Promise<T>): Promise<T> {
    return this.write(() => {
      const writing = work();
      const clear = (): void => (this.#otherWrites = undefined);
      this.#otherWrites = writing.then(clear, clear);
      return writing;
    });
  }

  /** A number that changes with each commit of another process, and only then. */
  version(): number {
    return this.#checkpoints.version();
  }

  /** Throws `store_failed` if a write may be lost, or while the database is not known to be intact. */
  check(): void {
    this.#durability.check();
    this.#damage.check();
  }

  async close(): Promise<void> {
    await this.#otherWrites;
    await this.#checkpoints.close();
    await this.#damage.close();
    await this.#durability.close();
  }

  #handleError(error: unknown): void {
    const { code = "" } = error as { code?: string };
    // The log itself may have filled the disk: it is truncated once its content is in the database.
    if (code === "SQLITE_FULL") this.#checkpoints.request();
    if (/^SQLITE_(CORRUPT|NOTADB)/.test(code)) this.#damage.report(error as Error);
  }

  #onComplete(): void {
    this.#isCheckpointFailing = false;
    if (this.#durability.restored()) this.#log?.info("all writes to the store are on disk");
  }

  #onFailure(error: CheckpointFailure): void {
    if (!this.#isCheckpointFailing) {
      this.#log?.error({ err: error }, "the log of the store could not be moved into it; retrying");
    }
    this.#isCheckpointFailing = true;
    // The disk failed, and may not report that again to the next flush.
    if (error.code?.startsWith("SQLITE_IOERR")) this.#durability.lost(error);
  }
}

/** As soon as so many changes are waiting, the flush begins, while other simultaneous changes are still being made. */
const BATCH_SIZE = 12;

/**
 * Tracks if committed changes are on disk. A failing disk reports an error only once, and other pending writes may be
 * lost as well. So nothing counts as durable from then on, until all of it was written again (`restored`).
 */
class Durability {
  readonly #files: OpenedFiles;
  /** Opened in advance, so that a lack of descriptors does not look like a failing disk. */
  readonly #log: number;
  readonly #onLost: (error: unknown, isNew: boolean) => void;
  #isLost = false;
  #flushing: Promise<void> = Promise.resolve();
  /** The flush that begins after the current one, for all callers until then. */
  #next: Promise<void> | undefined;
  /** The number of calls that wait for it. */
  #waiting = 0;
  #beginFlush: (() => void) | undefined;
  #closing: Promise<void> | undefined;

  constructor(databaseFile: string, onLost: (error: unknown, isNew: boolean) => void) {
    this.#files = new OpenedFiles(databaseFile);
    this.#log = openSync(`${databaseFile}-wal`, "r+");
    this.#onLost = onLost;
  }

  /** Throws `store_failed` while it is unknown what is on disk. */
  check(): void {
    this.#files.check();
    if (this.#isLost) throw new BerthError("store_failed", "the disk has failed; Berth is retrying");
  }

  /** Resolves when everything that was committed before the call is on disk. Rejects with `store_uncertain`. */
  async flush(): Promise<void> {
    if ((this.#waiting += 1) >= BATCH_SIZE) this.#beginFlush?.();
    this.#next ??= this.#flushNext();
    await this.#next.catch((error: unknown) => this.lost(error));
    if (this.#isLost) throw new BerthError("store_uncertain", "check whether the change was made before you repeat it");
  }

  /** Begins once the current flush has ended, and enough calls are waiting, or all that have arrived. */
  async #flushNext(): Promise<void> {
    await this.#flushing;
    if (this.#waiting < BATCH_SIZE) await new Promise<void>((resolve) => setImmediate((this.#beginFlush = resolve)));
    [this.#next, this.#waiting] = [undefined, 0];
    const flushed = this.#flush();
    this.#flushing = flushed.catch(() => {});
    return flushed;
  }

  /** Asynchronous, so that calls continue. They would not if SQLite itself waited for the disk. */
  async #flush(): Promise<void> {
    await new Promise<void>((resolve, reject) => fdatasync(this.#log, (error) => (error ? reject(error) : resolve())));
    // A file that was deleted or moved is as good as lost.
    this.#files.check();
  }

  /** The disk did not accept a write. */
  lost(error: unknown): void {
    const isNew = !this.#isLost;
    this.#isLost = true;
    this.#onLost(error, isNew);
  }

  /** Everything is on disk after all. Returns true if that was uncertain. */
  restored(): boolean {
    const wasLost = this.#isLost;
    this.#isLost = false;
    return wasLost;
  }

  /** Idempotent: after the first close, the descriptor's number may belong to another file. */
  close(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  async #close(): Promise<void> {
    await Promise.allSettled([this.#next, this.#flushing]);
    closeSync(this.#log);
  }
}
