export interface StartWaits {
  /** Between a failed start and the next: the first one, and the longest. Each is twice the one before. */
  readonly upstreamBackoffMs: number;
  readonly upstreamBackoffMaxMs: number;
}

/** How long whoever fails to start is left alone. The first failure lets the next start try at once: most come back. */
export class FailedStarts {
  readonly #waits: StartWaits;
  #count = 0;
  #reason: string | undefined;
  #notBefore = 0;

  constructor(waits: StartWaits) {
    this.#waits = waits;
  }

  /** Why the last one failed; undefined when it did not. */
  get reason(): string | undefined {
    return this.#reason;
  }

  /** Milliseconds until the next one may be tried; undefined when it may be now. */
  get waitMs(): number | undefined {
    const waitMs = this.#notBefore - performance.now();
    return waitMs > 0 ? waitMs : undefined;
  }

  add(reason: string): void {
    const { upstreamBackoffMs, upstreamBackoffMaxMs } = this.#waits;
    this.#reason = reason;
    const before = this.#count++;
    const waitMs = before === 0 ? 0 : Math.min(upstreamBackoffMs * 2 ** (before - 1), upstreamBackoffMaxMs);
    this.#notBefore = performance.now() + waitMs;
  }

  /** It was one call's doing: the next start may be tried as if there had been none. */
  tell(reason: string): void {
    this.#reason = reason;
  }

  /** One has worked. How often it failed before counts until it has lasted. */
  worked(): void {
    this.#reason = undefined;
  }

  /** The next failure is the first one. */
  lasted(): void {
    this.#count = 0;
  }

  forget(): void {
    this.#count = 0;
    this.#reason = undefined;
    this.#notBefore = 0;
  }
}
