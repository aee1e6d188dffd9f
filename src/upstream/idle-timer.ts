/** Tells when something has not been used for a while, with a single timer. Keeps no process alive. */
export class IdleTimer {
  readonly #ms: number;
  readonly #isInUse: () => boolean;
  readonly #onIdle: () => void;
  #usedAt = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(ms: number, isInUse: () => boolean, onIdle: () => void) {
    this.#ms = ms;
    this.#isInUse = isInUse;
    this.#onIdle = onIdle;
  }

  /** On the clock of `performance.now()`. */
  get usedAt(): number {
    return this.#usedAt;
  }

  used(): void {
    this.#usedAt = performance.now();
    this.#timer ??= this.#look(this.#ms);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #look(ms: number): NodeJS.Timeout {
    const timer = setTimeout(() => {
      this.#timer = undefined;
      const leftMs = this.#usedAt + this.#ms - performance.now();
      if (this.#isInUse() || leftMs > 0) this.#timer = this.#look(Math.max(leftMs, LEAST_MS));
      else this.#onIdle();
    }, ms);
    timer.unref();
    return timer;
  }
}

const LEAST_MS = 1_000;
