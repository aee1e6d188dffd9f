import { closeSync, fdatasync, openSync } from "node:fs";
import { BerthError } from "../../lib/errors.ts";
import { OpenedFiles } from "./store-files.ts";

/**
 * Knows if committed changes are on the disk. A failing disk reports an error once, and everything else that waited for
 * it may be lost as well: so nothing counts as kept from then on, until all of it was written elsewhere (`restored`).
 */
export class Durability {
  readonly #files: OpenedFiles;
  /** Open from the beginning, so that a lack of descriptors does not look like a failing disk. */
  readonly #log: number;
  readonly #onLost: (error: unknown, isNew: boolean) => void;
  #isLost = false;
  #flushing: Promise<void> = Promise.resolve();
  /** The flush that begins once the current one has ended, for all callers until then. */
  #next: Promise<void> | undefined;
  #closing: Promise<void> | undefined;

  constructor(databaseFile: string, onLost: (error: unknown, isNew: boolean) => void) {
    this.#files = new OpenedFiles(databaseFile);
    this.#log = openSync(`${databaseFile}-wal`, "r+");
    this.#onLost = onLost;
  }

  /** Throws `store_failed` while it is unknown what is kept. */
  check(): void {
    this.#files.check();
    if (this.#isLost) throw new BerthError("store_failed", "the disk has failed, and is being tried again");
  }

  /** Resolves when everything that was committed before the call is on the disk. Rejects with `store_unsure`. */
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
    await this.#next?.catch(() => {});
    await this.#flushing;
    closeSync(this.#log);
  }
}
