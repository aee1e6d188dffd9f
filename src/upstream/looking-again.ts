/** Changes that come together are looked at together. */
const TOGETHER_MS = 50;
/** What one look and each MiB of what is seen cost, of the time until the next: a server may not use more than a fair share. */
const LOOK_MS = 2_000;
const MS_PER_MIB = 8_000;
/** After a time of rest so much is free. */
const FREE_MS = 20_000;
const MIB = 1024 * 1024;

/** Looks at something again whenever it is said to have changed, one look after the other. */
export class LookingAgain {
  readonly #look: () => Promise<{ readonly bytes: number }>;
  #underWay: Promise<void> | undefined;
  #isDue = false;
  /** Until when all looks so far are paid for, on the clock of `performance.now()`. */
  #owedUntil = 0;

  /** `look` does not reject, and gives how long what it saw is. */
  constructor(look: () => Promise<{ readonly bytes: number }>) {
    this.#look = look;
  }

  /** From a change on until it is known what it has become; undefined when that is known. */
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
