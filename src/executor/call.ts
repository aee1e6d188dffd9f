import type { AskingCall, GuestCall, GuestFailure, GuestOutcome, GuestProgram } from "./executor.ts";

/** One call from its arrival to its outcome. It is settled exactly once, whatever happens later. */
export class Call implements AskingCall {
  readonly program: GuestProgram;
  readonly given: GuestCall;
  /** Its number in its process; 0 until it is sent. */
  id = 0;
  /** On the clock of `performance.now()`. */
  readonly deadlineAt: number;
  /** When the process is to be ended because the call did not stop; 0 while nobody wants it to stop. */
  killAt = 0;
  /** What a stopping call resolves with, whatever the guest still answers. */
  verdict: GuestFailure | undefined;
  /** The guest's event loop has seen the cancellation. */
  acknowledged = false;
  /** The caller has its outcome, the guest still works on it. */
  settled = false;
  /** Nobody waits for it any more, so that it takes no place, and the guest goes on with it all the same. */
  isAbandoned = false;
  /** Its function goes on as a task. */
  isTask = false;
  /** Events of the guest so far. */
  events = 0;
  /** Progress that was consumed but not yet credited to the guest. */
  uncredited = 0;
  /** Progress that the consumer still holds. */
  unconsumed = 0;
  /** Removes the listener on the caller's signal. */
  forget: (() => void) | undefined;
  readonly #resolve: (outcome: GuestOutcome) => void;
  #closers: (() => void)[] | undefined;

  constructor(program: GuestProgram, given: GuestCall, now: number, resolve: (outcome: GuestOutcome) => void) {
    this.program = program;
    this.given = given;
    this.deadlineAt = now + given.deadlineMs;
    this.#resolve = resolve;
  }

  get caller(): unknown {
    return this.given.caller;
  }

  settle(outcome: GuestOutcome): void {
    if (this.settled) return;
    this.settled = true;
    this.forget?.();
    if (this.#closers) for (const close of this.#closers) close();
    this.#resolve(this.verdict ? { ok: false, error: this.verdict } : outcome);
  }

  /** Has `close` called when the caller has its outcome. */
  onOver(close: () => void): void {
    if (this.settled) close();
    else (this.#closers ??= []).push(close);
  }

  fail(error: GuestFailure): void {
    this.settle({ ok: false, error });
  }
}
