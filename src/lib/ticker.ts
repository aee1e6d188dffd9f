/** The granularity of deadlines: one timer for all calls instead of one per call. */
const TICK_MS = 20;

/** Sweeps at a fixed interval as long as there is something to watch. */
export class Ticker {
  readonly #sweep: (now: number) => boolean;
  #timer: NodeJS.Timeout | undefined;

  /** `sweep` returns true while there is something to watch. */
  constructor(sweep: (now: number) => boolean) {
    this.#sweep = sweep;
  }

  /** Must be called whenever there is something new to watch; cheap. */
  wake(): void {
    this.#timer ??= setInterval(this.#tick, TICK_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  readonly #tick = (): void => {
    if (!this.#sweep(performance.now())) this.stop();
  };
}
