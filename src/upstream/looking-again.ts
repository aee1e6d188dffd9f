/** Changes that come together are looked at together. */
const TOGETHER_MS = 50;

/** Looks at something again whenever it is said to have changed, one look after the other. */
export class LookingAgain {
  readonly #look: () => Promise<void>;
  #underWay: Promise<void> | undefined;
  #isDue = false;

  /** `look` does not reject. */
  constructor(look: () => Promise<void>) {
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
    await new Promise<void>((resolve) => setTimeout(resolve, TOGETHER_MS).unref());
    this.#isDue = false;
    await this.#look();
  }
}
