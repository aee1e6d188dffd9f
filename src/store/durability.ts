import { closeSync, fdatasync, openSync } from "node:fs";
import { BerthError } from "../lib/errors.ts";
import { OpenedFiles } from "./store-files.ts";

/**
 * Whether what was committed is on the disk. A disk that fails once says so once, and whatever else had waited for it then
 * may be lost as well: so nothing counts as kept from then on, until all of it was written elsewhere (`restored`).
 */
export class Durability {
  readonly #files: OpenedFiles;
  /** Open from the beginning, so that no lack of descriptors looks like a disk that fails. */
  readonly #log: number;
  readonly #onLost: (error: unknown, isNew: boolean) => void;
  #isLost = false;
  #flushing: Promise<void> = Promise.resolve();
  /** That begins once the one that is under way has ended: for all who ask until then. */
  #next: Promise<void> | undefined;
  #closing: Promise<void> | undefined;

  constructor(databaseFile: string, onLost: (error: unknown, isNew: boolean) => void) {
    this.#files = new OpenedFiles(databaseFile);
    this.#log = openSync(`${databaseFile}-wal`, "r+");
    this.#onLost = onLost;
  }

  /** Throws `store_failed` while it is not known what is kept. */
  check(): void {
    this.#files.check();
    if (this.#isLost) throw new BerthError("store_failed", "the disk has failed, and is being tried again");
  }

  /** Resolves when all that was committed before the call is on the disk. Rejects with `store_unsure`. */
  async flush(): Promise<void> {
    this.#next ??= this.#flushing.then(() => {
      this.#next = undefined;
      const flushed = this.#flush();
      this.#flushing = flushed.catch(() => {});
      return flushed;
    });
    await this.#next.catch((error: unknown) => this.lost(error));
    if (this.#isLost) throw new BerthError("store_unsure", "look whether it stands before you repeat it");
  }

  /** Calls go on meanwhile, as they would not if SQLite itself waited for the disk. */
  async #flush(): Promise<void> {
    await new Promise<void>((resolve, reject) => fdatasync(this.#log, (error) => (error ? reject(error) : resolve())));
    // What is on the disk under no name is lost like what is not there.
    this.#files.check();
  }

  /** The disk did not take what was written. */
  lost(error: unknown): void {
    const isNew = !this.#isLost;
    this.#isLost = true;
    this.#onLost(error, isNew);
  }

  /** All of it is on the disk after all. True when that was not known. */
  restored(): boolean {
    const wasLost = this.#isLost;
    this.#isLost = false;
    return wasLost;
  }

  /** A second time it does nothing: the number of the descriptor may be another file's by then. */
  close(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  async #close(): Promise<void> {
    await this.#next?.catch(() => {});
    await this.#flushing;
    closeSync(this.#log);
  }
}
