import { closeSync, fdatasync, openSync } from "node:fs";
import type Database from "#better-sqlite3";
import { BerthError } from "../../lib/errors.ts";
import type { Log } from "../../lib/log.ts";
import { asStoreFailure } from "../../lib/store-failure.ts";
import { Checkpoints, type CheckpointFailure } from "./checkpoints.ts";
import { Damage } from "./damage.ts";
import { OpenedFiles } from "./store-files.ts";

/**
 * Writes to the SQLite file: a commit goes into its log without waiting for the disk. A commit to keep is then flushed,
 * and a long log is moved into the database, while calls go on.
 */
export class WriteAheadLog {
  readonly #checkpoints: Checkpoints;
  readonly #durability: Durability;
  readonly #damage: Damage;
  readonly #log: Log | undefined;
  /**
   * Pending while another thread of this process writes: a second writer would wait for the lock, and everybody for it.
   */
  #others: Promise<void> | undefined;
  #isCheckpointFailing = false;

  constructor(database: Database.Database, logBytes: number, log: Log | undefined) {
    this.#log = log;
    this.#damage = new Damage(database, log);
    this.#durability = new Durability(database.name, (error, isNew) => {
      if (isNew)
        log?.error({ err: error }, "the disk failed: a power cut may undo recent writes, which are written again");
      // The content of the log goes into the database, which is another way to the disk.
      this.#checkpoints.want();
    });
    this.#checkpoints = new Checkpoints(database, {
      logBytes,
      onComplete: () => this.#onComplete(),
      onFailure: (error) => this.#onFailure(error),
      onGone: (error) =>
        log?.error({ err: error }, "checkpoints of the store could get no thread; writes wait for them now"),
    });
  }

  /** Commits of `work` outlive this process at once, and a power cut soon. Rejects with `store_failed`. */
  async write<T>(work: () => T | Promise<T>): Promise<T> {
    for (let pause; (pause = this.#checkpoints.pause ?? this.#others);) await pause;
    try {
      this.#checkpoints.checkRoom();
      return await work();
    } catch (error) {
      this.#hear(error);
      throw asStoreFailure(error);
    } finally {
      this.#checkpoints.wrote();
    }
  }

  /**
   * As `write`, and on the disk when it resolves. Rejects with `store_uncertain` where it was committed and may be lost.
   */
  async keep<T>(work: () => T | Promise<T>): Promise<T> {
    this.#durability.check();
    const result = await this.write(work);
    await this.#durability.flush();
    return result;
  }

  /** As `write`, for commits of another thread: writes of this one wait until it has finished. */
  writeAside<T>(work: () => Promise<T>): Promise<T> {
    return this.write(() => {
      const writing = work();
      const over = (): void => (this.#others = undefined);
      this.#others = writing.then(over, over);
      return writing;
    });
  }

  /** A number that changes with each commit of another process, and with nothing else. */
  version(): number {
    return this.#checkpoints.version();
  }

  /** Throws `store_failed` when a write may be lost, or while the database is not known to be whole. */
  check(): void {
    this.#durability.check();
    this.#damage.check();
  }

  async close(): Promise<void> {
    await this.#others;
    await this.#checkpoints.close();
    await this.#damage.close();
    await this.#durability.close();
  }

  #hear(error: unknown): void {
    const { code = "" } = error as { code?: string };
    // The log alone may have filled the disk: it is truncated once its content stands in the database.
    if (code === "SQLITE_FULL") this.#checkpoints.want();
    if (/^SQLITE_(CORRUPT|NOTADB)/.test(code)) this.#damage.heard(error as Error);
  }

  #onComplete(): void {
    this.#isCheckpointFailing = false;
    if (this.#durability.restored()) this.#log?.info("what was written to the store is on the disk");
  }

  #onFailure(error: CheckpointFailure): void {
    if (!this.#isCheckpointFailing) {
      this.#log?.error({ err: error }, "the log of the store could not be moved into it; Berth tries again");
    }
    this.#isCheckpointFailing = true;
    // The disk failed, and may not report it again to the next flush.
    if (error.code?.startsWith("SQLITE_IOERR")) this.#durability.lost(error);
  }
}

/** So many changes are flushed while others that arrived with them are made. */
const TOGETHER = 12;

/**
 * Knows if committed changes are on the disk. A failing disk reports an error once, and everything else that waited for
 * it may be lost as well: so nothing counts as kept from then on, until all of it was written elsewhere (`restored`).
 */
class Durability {
  readonly #files: OpenedFiles;
  /** Open from the beginning, so that a lack of descriptors does not look like a failing disk. */
  readonly #log: number;
  readonly #onLost: (error: unknown, isNew: boolean) => void;
  #isLost = false;
  #flushing: Promise<void> = Promise.resolve();
  /** The flush that begins once the current one has ended, for all callers until then. */
  #next: Promise<void> | undefined;
  /** The calls that wait for it. */
  #waiting = 0;
  #begin: (() => void) | undefined;
  #closing: Promise<void> | undefined;

  constructor(databaseFile: string, onLost: (error: unknown, isNew: boolean) => void) {
    this.#files = new OpenedFiles(databaseFile);
    this.#log = openSync(`${databaseFile}-wal`, "r+");
    this.#onLost = onLost;
  }

  /** Throws `store_failed` while it is unknown what is kept. */
  check(): void {
    this.#files.check();
    if (this.#isLost) throw new BerthError("store_failed", "the disk has failed; Berth tries it again");
  }

  /** Resolves when everything that was committed before the call is on the disk. Rejects with `store_uncertain`. */
  async flush(): Promise<void> {
    if ((this.#waiting += 1) >= TOGETHER) this.#begin?.();
    this.#next ??= this.#flushNext();
    await this.#next.catch((error: unknown) => this.lost(error));
    if (this.#isLost) throw new BerthError("store_uncertain", "check whether the change was made before you repeat it");
  }

  /** Begins once the current flush has ended, and enough calls wait for this one, or all that have arrived. */
  async #flushNext(): Promise<void> {
    await this.#flushing;
    if (this.#waiting < TOGETHER) await new Promise<void>((resolve) => setImmediate((this.#begin = resolve)));
    [this.#next, this.#waiting] = [undefined, 0];
    const flushed = this.#flush();
    this.#flushing = flushed.catch(() => {});
    return flushed;
  }

  /** Calls go on meanwhile; they would not if SQLite itself waited for the disk. */
  async #flush(): Promise<void> {
    await new Promise<void>((resolve, reject) => fdatasync(this.#log, (error) => (error ? reject(error) : resolve())));
    // A file without a name is as good as lost.
    this.#files.check();
  }

  /** The disk did not accept a write. */
  lost(error: unknown): void {
    const isNew = !this.#isLost;
    this.#isLost = true;
    this.#onLost(error, isNew);
  }

  /** Everything is on the disk after all. Returns true when that was unknown. */
  restored(): boolean {
    const wasLost = this.#isLost;
    this.#isLost = false;
    return wasLost;
  }

  /** A second close does nothing: the descriptor's number may be another file's by then. */
  close(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  async #close(): Promise<void> {
    await Promise.allSettled([this.#next, this.#flushing]);
    closeSync(this.#log);
  }
}
