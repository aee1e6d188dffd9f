/** Changes within this time are looked at together. */
const TOGETHER_MS = 50;
/** The cost of one look and of each MiB seen, as time until the next: no server may use more than a fair share. */
const LOOK_MS = 2_000;
const MS_PER_MIB = 8_000;
/** The credit after a time of rest. */
const FREE_MS = 20_000;
const MIB = 1024 * 1024;

/** Looks at something again whenever it has changed, one look after the other. */
export class Relisting {
  readonly #look: () => Promise<{ readonly bytes: number }>;
  #underWay: Promise<void> | undefined;
  #isDue = false;
  /** The time until which all looks so far are paid for, on the clock of `performance.now()`. */
  #owedUntil = 0;

  /** `look` must not reject, and resolves with the size of what it saw. */
  constructor(look: () => Promise<{ readonly bytes: number }>) {
    this.#look = look;
  }

  /** Pending from a change until it has been looked at; undefined if nothing is pending. */
  get underWay(): Promise<void> | undefined {
    return this.#underWay;
  }

  hasChanged(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    const looking = (this.#underWay ?? Promise.resolve()).then(() => this.#lookSoon());
    this.#underWay = looking;
    void looking.finally(() => {
      if (this.#underWay === looking) this.#underWay = undefined;
    });
  }

  async #lookSoon(): Promise<void> {
    const wait = Math.max(TOGETHER_MS, this.#owedUntil - FREE_MS - performance.now());
    await new Promise<void>((resolve) => setTimeout(resolve, wait).unref());
    this.#isDue = false;
    const { bytes } = await this.#look();
    this.#owedUntil = Math.max(this.#owedUntil, performance.now()) + LOOK_MS + (bytes * MS_PER_MIB) / MIB;
  }
}
