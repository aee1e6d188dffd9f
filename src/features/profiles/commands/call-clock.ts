import { UpstreamError } from "../../../upstream/messages/upstream-error.ts";

/** Limits the duration of a call, excluding the time that a person takes to answer: it restarts after each answer. */
export class CallClock {
  readonly #calls = new Set<() => void>();
  #asking = 0;

  /** Rejects with `upstream_timeout` if the work takes longer. */
  async within<T>(ms: number, signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const late = new AbortController();
    let timer: NodeJS.Timeout | undefined;
    const restart = (): void => {
      clearTimeout(timer);
      if (this.#asking === 0) timer = setTimeout(() => late.abort(), ms);
    };
    this.#calls.add(restart);
    restart();
    try {
      return await work(AbortSignal.any([signal, late.signal]));
    } catch (error) {
      if (!late.signal.aborted || signal.aborted) throw error;
      throw new UpstreamError("upstream_timeout", `it took more than ${ms / 1000} s`, { cause: error });
    } finally {
      this.#calls.delete(restart);
      clearTimeout(timer);
    }
  }

  async asking<T>(answer: () => Promise<T>): Promise<T> {
    this.#asking += 1;
    this.#restart();
    try {
      return await answer();
    } finally {
      this.#asking -= 1;
      this.#restart();
    }
  }

  #restart(): void {
    for (const restart of this.#calls) restart();
  }
}
