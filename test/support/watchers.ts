const WAIT_MS = 240_000;

/** Waits for what events bring, without a poll: each event has everything that waits look again. */
export class Watchers {
  readonly #all = new Set<() => void>();
  #isOver = false;

  look(): void {
    for (const watcher of this.#all) watcher();
  }

  /** Nothing comes any more. */
  end(): void {
    this.#isOver = true;
    this.look();
  }

  /** The first result of `find` that is not undefined; rejects with what `describe` returns if there is none. */
  until<T>(find: () => T | undefined, describe: () => string): Promise<T> {
    return new Promise((resolve, reject) => {
      const settle = (act: () => void): void => {
        clearTimeout(timer);
        this.#all.delete(watcher);
        act();
      };
      const fail = (): void => settle(() => reject(new Error(describe())));
      const watcher = (): void => {
        const found = find();
        if (found !== undefined) settle(() => resolve(found));
        else if (this.#isOver) fail();
      };
      const timer = setTimeout(fail, WAIT_MS);
      this.#all.add(watcher);
      watcher();
    });
  }
}
