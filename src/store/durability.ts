import { BerthError } from "../errors.ts";
import { flushLog } from "./flush-log.ts";

/**
 * Whether what was committed is on the disk. A disk that fails once says so once, and whatever else had waited for it then
 * may be lost as well: so nothing counts as kept from then on, until all of it was written elsewhere (`restored`).
 */
export class Durability {
  readonly #databaseFile: string;
  readonly #onLost: (error: unknown, isNew: boolean) => void;
  #isLost = false;
  #flushing: Promise<void> = Promise.resolve();
  /** That begins once the one that is under way has ended: for all who ask until then. */
  #next: Promise<void> | undefined;

  constructor(databaseFile: string, onLost: (error: unknown, isNew: boolean) => void) {
    this.#databaseFile = databaseFile;
    this.#onLost = onLost;
  }

  /** Throws `store_failed` while it is not known what is kept. */
  check(): void {
    if (this.#isLost) throw new BerthError("store_failed", "the disk has failed, and is being tried again");
  }

  /** Resolves when all that was committed before the call is on the disk. Rejects with `store_unsure`. */
  async flush(): Promise<void> {
    this.#next ??= this.#flushing.then(() => {
      this.#next = undefined;
      const flushed = flushLog(this.#databaseFile);
      this.#flushing = flushed.catch(() => {});
      return flushed;
    });
    await this.#next.catch((error: unknown) => this.lost(error));
    if (this.#isLost) throw new BerthError("store_unsure", "look whether it stands before you repeat it");
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
}
