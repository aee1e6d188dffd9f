export interface StartWaits {
  /** The wait between a failed start and the next: the first one, and the longest. Each is twice the one before. */
  readonly upstreamBackoffMs: number;
  readonly upstreamBackoffMaxMs: number;
}

/** The back-off after failed starts. The first failure lets the next start try at once: most succeed. */
export class FailedStarts {
  readonly #waits: StartWaits;
  #count = 0;
  #reason: string | undefined;
  #notBefore = 0;

  constructor(waits: StartWaits) {
    this.#waits = waits;
  }

  /** Why the last start failed; undefined if it did not. */
  get reason(): string | undefined {
    return this.#reason;
  }

  /** Milliseconds until the next try; undefined if it may begin now. */
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

  /** One call caused the failure, so the next start need not wait. */
  tell(reason: string): void {
    this.#reason = reason;
  }

  /** A start worked. Earlier failures still count until it has lasted. */
  worked(): void {
    this.#reason = undefined;
  }

  /** The next failure counts as the first. */
  lasted(): void {
    this.#count = 0;
  }

  forget(): void {
    this.#count = 0;
    this.#reason = undefined;
    this.#notBefore = 0;
  }
}
