/** A timer of the clock. */
export interface Timer {
  clear(): void;
  /** From here on, the timer does not keep the process alive. Returns itself. */
  unref(): Timer;
}

/** The monotonic time of this process and its timers; tests can advance it. */
class Clock {
  #leptMs = 0;
  readonly #waiting = new Set<{ readonly dueAt: number; fire(): void }>();

  /** Milliseconds, meaningful only compared with another reading. */
  now(): number {
    return performance.now() + this.#leptMs;
  }

  /** Calls `act` once, after `ms` milliseconds. */
  after(ms: number, act: () => void): Timer {
    const fire = (): void => {
      timer.clear();
      act();
    };
    const pending = { dueAt: this.now() + ms, fire };
    const timeout = setTimeout(fire, ms);
    const timer = {
      clear: () => {
        clearTimeout(timeout);
        this.#waiting.delete(pending);
      },
      unref: () => {
        timeout.unref();
        return timer;
      },
    };
    this.#waiting.add(pending);
    return timer;
  }

  /** For tests: advances time by `ms` and calls what is due, in order. */
  leap(ms: number): void {
    this.#leptMs += ms;
    const due = [...this.#waiting].filter(({ dueAt }) => dueAt <= this.now());
    for (const pending of due.sort((one, other) => one.dueAt - other.dueAt))
      if (this.#waiting.has(pending)) pending.fire();
  }
}

export const clock = new Clock();
