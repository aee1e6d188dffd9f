import type { CancelSignal } from "../lib/cancellation.ts";
import type { RequestingCall, GuestCall, GuestFailure, GuestOutcome, GuestProgram } from "./executor.ts";
import { cancelled } from "./failures.ts";
import type { GuestProcess } from "./guest-process.ts";
import { toGuest } from "./guest/wire.mts";

/** One call from its arrival to its outcome. It is settled exactly once, whatever happens later. */
export class PendingCall implements RequestingCall {
  readonly program: GuestProgram;
  readonly request: GuestCall;
  /** Its id in its process; 0 until it is sent. */
  id = 0;
  /** The number of its frame, for `GuestProcess.mayHaveRead`. */
  frame = 0;
  /** On `clock`, as is `killAt`. */
  readonly deadlineAt: number;
  /** When the process is killed if the call has not stopped; 0 until it is asked to stop. */
  killAt = 0;
  /** The outcome of a stopping call, whatever the guest still answers. */
  verdict: GuestFailure | undefined;
  /** The guest's event loop has acknowledged the cancellation. */
  acknowledged = false;
  /** The caller has its outcome; the guest may still be working on it. */
  settled = false;
  /** No caller waits for it, so that it takes no slot, but the guest continues with it. */
  isAbandoned = false;
  /** Its function continues as a task. */
  isTask = false;
  /** Events received from the guest so far. */
  events = 0;
  /** Progress that was consumed but not yet credited to the guest. */
  uncredited = 0;
  /** Progress that the consumer has not finished with. */
  unconsumed = 0;
  readonly #resolve: (outcome: GuestOutcome) => void;
  #signal: CancelSignal | undefined;
  #onAbort: (() => void) | undefined;
  #closers: ((why: string) => void)[] | undefined;
  /** Why its access was revoked, although it continues. */
  #revoked: string | undefined;

  constructor(program: GuestProgram, request: GuestCall, now: number, resolve: (outcome: GuestOutcome) => void) {
    this.program = program;
    this.request = request;
    this.deadlineAt = now + request.deadlineMs;
    this.#resolve = resolve;
  }

  get caller(): unknown {
    return this.request.caller;
  }

  get item(): string | undefined {
    return this.request.item;
  }

  /**
   * Calls `onAbort` when the caller gives up, until the caller has its outcome. Stores signal and listener instead of a
   * function that removes the listener: V8 treats a function in a property as long-lived, and would retain each call,
   * with its whole request, until a full garbage collection.
   */
  listen(signal: CancelSignal, onAbort: () => void): void {
    signal.addEventListener("abort", onAbort);
    this.#signal = signal;
    this.#onAbort = onAbort;
  }

  settle(outcome: GuestOutcome): void {
    if (this.settled) return;
    this.settled = true;
    if (this.#signal) this.#signal.removeEventListener("abort", this.#onAbort!);
    this.#close(OVER);
    this.#resolve(this.verdict ? { ok: false, error: this.verdict } : outcome);
  }

  /** Calls `close` when the caller has its outcome, or when the call's access is revoked. */
  onOver(close: (why: string) => void): void {
    const why = this.settled ? OVER : this.#revoked;
    if (why !== undefined) close(why);
    else (this.#closers ??= []).push(close);
  }

  /** Closes everything that was opened for it. */
  revoke(why: string): void {
    this.#revoked ??= why;
    this.#close(why);
  }

  #close(why: string): void {
    const closers = this.#closers;
    this.#closers = undefined;
    if (closers) for (const close of closers) close(why);
  }

  fail(error: GuestFailure): void {
    this.settle({ ok: false, error });
  }
}

const OVER = "its call is over";

/** How long a call may take to stop after it was asked to. */
export const GRACE_MS = 100;
/** How long a busy process may take to acknowledge a cancellation before it counts as stuck. */
const REACT_MS = 1_000;

/** Asks the guest to stop; the call ends with `verdict`. If it does not stop, its process is ended. */
export function askToStop(process: GuestProcess, call: PendingCall, verdict: GuestFailure, now: number): void {
  call.verdict ??= verdict;
  call.killAt = now + GRACE_MS;
  call.acknowledged = false;
  process.send(`[${toGuest.cancel},${call.id},"${verdict.reason}"]`);
}

/**
 * Returns true if the process has to end now that the grace period is over. A call that exceeded its deadline ends the
 * process; a cancelled one only if the guest does not respond at all. Otherwise it may continue until its deadline,
 * with its result ignored.
 */
export function mustEndProcess(call: PendingCall, now: number): boolean {
  const { acknowledged, settled } = call;
  if (call.verdict !== cancelled || now >= call.deadlineAt || (!acknowledged && settled)) return true;
  call.fail(cancelled);
  call.killAt = acknowledged ? 0 : now + REACT_MS;
  return false;
}
