/** A timer of the clock. */
export interface Timer {
  clear(): void;
  /** Keeps no process alive from here on. Returns itself. */
  unref(): Timer;
}

/** The steady time of this process and its timers; tests let it leap. */
class Clock {
  #leptMs = 0;
  readonly #waiting = new Set<{ readonly dueAt: number; fire(): void }>();

  /** Milliseconds; of use only compared with another reading. */
  now(): number {
    return performance.now() + this.#leptMs;
  }

  /** Calls `act` once, after `ms` milliseconds. */
  after(ms: number, act: () => void): Timer {
    const fire = (): void => {
      timer.clear();
      act();
    };
    const waiting = { dueAt: this.now() + ms, fire };
    const timeout = setTimeout(fire, ms);
    const timer = {
      clear: () => {
        clearTimeout(timeout);
        this.#waiting.delete(waiting);
      },
      unref: () => {
        timeout.unref();
        return timer;
      },
    };
    this.#waiting.add(waiting);
    return timer;
  }

  /** For tests: `ms` pass at once. Calls what is due, in order. */
  leap(ms: number): void {
    this.#leptMs += ms;
    const due = [...this.#waiting].filter(({ dueAt }) => dueAt <= this.now());
    for (const waiting of due.sort((one, other) => one.dueAt - other.dueAt))
      if (this.#waiting.has(waiting)) waiting.fire();
  }
}

export const clock = new Clock();
