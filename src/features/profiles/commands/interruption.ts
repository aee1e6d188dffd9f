/**
 * Handles Ctrl-C and similar signals, from the start of a command that reaches a server until it has closed everything
 * that it opened.
 */
export class Interruption {
  readonly #stop = new AbortController();
  readonly #forget: readonly (() => void)[];
  /** The exit code used by shells; undefined until interrupted. */
  exitCode: number | undefined;

  constructor() {
    this.#forget = Object.entries(signalNumbers).map(([name, number]) => {
      const listener = (): void => {
        this.exitCode ??= 128 + number;
        this.#stop.abort();
      };
      process.on(name, listener);
      return () => void process.removeListener(name, listener);
    });
  }

  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  close(): void {
    for (const forget of this.#forget) forget();
  }
}

const signalNumbers = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 };
