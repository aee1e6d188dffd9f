import { createInterface, type Interface } from "node:readline";

/**
 * Lines from the person at the terminal. Standard output is for results, so questions go to stderr. Text that is typed
 * ahead waits for its question.
 */
export class Terminal {
  readonly #lines: string[] = [];
  #reader: Interface | undefined;
  #waiting: ((line: string | undefined) => void) | undefined;
  #isOver = false;

  /** Undefined where nobody can be asked. */
  static open(): Terminal | undefined {
    return process.stdin.isTTY && process.stderr.isTTY ? new Terminal() : undefined;
  }

  say(text: string): void {
    process.stderr.write(`${text}\n`);
  }

  /** Undefined when the person ends the input instead of answering (Ctrl-D), or when the signal is aborted. */
  read(prompt: string, signal?: AbortSignal): Promise<string | undefined> {
    this.#reader ??= this.#open();
    process.stderr.write(prompt);
    const line = this.#lines.shift();
    if (line !== undefined || this.#isOver || signal?.aborted) return Promise.resolve(line);
    return new Promise((resolve) => {
      const end = (given: string | undefined): void => {
        signal?.removeEventListener("abort", onAbort);
        this.#waiting = undefined;
        resolve(given);
      };
      const onAbort = (): void => end(undefined);
      signal?.addEventListener("abort", onAbort);
      this.#waiting = end;
    });
  }

  close(): void {
    this.#reader?.close();
  }

  #open(): Interface {
    // Not as a terminal: the system's own line editing stays, and Ctrl-C stays a signal.
    const reader = createInterface({ input: process.stdin, terminal: false });
    reader.on("line", (line) => (this.#waiting ? this.#waiting(line) : this.#lines.push(line)));
    reader.on("close", () => {
      this.#isOver = true;
      this.#waiting?.(undefined);
    });
    return reader;
  }
}
