import type { CancelSignal } from "../lib/cancellation.ts";
import type { BerthError } from "../lib/errors.ts";
import type { AnyResult, Progress, RequestOptions, UpstreamResult } from "./request.ts";

/** One request to a child, from its creation to its answer. */
export class PipeCall {
  id = 0;
  /** The number of its message among those sent to the child. */
  message = 0;
  onAbort: (() => void) | undefined;
  readonly what: string;
  readonly onProgress: RequestOptions["onProgress"];
  readonly signal: CancelSignal | undefined;
  /** On the clock of `performance.now()`. */
  readonly deadlineAt: number;
  readonly resolve: (result: AnyResult) => void;
  readonly reject: (error: BerthError) => void;

  constructor(
    what: string,
    onProgress: RequestOptions["onProgress"],
    signal: CancelSignal | undefined,
    deadlineAt: number,
    resolve: (result: AnyResult) => void,
    reject: (error: BerthError) => void,
  ) {
    this.what = what;
    this.onProgress = onProgress;
    this.signal = signal;
    this.deadlineAt = deadlineAt;
    this.resolve = resolve;
    this.reject = reject;
  }

  /** Reports progress in the server's words. */
  tell({ progress, total, message }: UpstreamResult): void {
    if (!this.onProgress || typeof progress !== "number") return;
    const told: Progress = {
      progress,
      ...(typeof total === "number" && { total }),
      ...(typeof message === "string" && { message }),
    };
    try {
      this.onProgress(told);
    } catch {
      // A listener that throws wants no more of it.
    }
  }
}
