import type { CancelSignal } from "../lib/cancellation.ts";
import type { AskingCall, GuestCall, GuestFailure, GuestOutcome, GuestProgram } from "./executor.ts";
import { cancelled } from "./failures.ts";
import type { GuestProcess } from "./guest-process.ts";
import { toGuest } from "./guest/wire.mts";

/** One call from its arrival to its outcome. It is settled exactly once, whatever happens later. */
export class PendingCall implements AskingCall {
  readonly program: GuestProgram;
  readonly given: GuestCall;
  /** Its number in its process; 0 until it is sent. */
  id = 0;
  /** The number of its frame among those that its process is sent. */
  frame = 0;
  /** On `clock`, as is `killAt`. */
  readonly deadlineAt: number;
  /** When the process is killed because the call did not stop; 0 while nobody has asked it to stop. */
  killAt = 0;
  /** The verdict that a stopping call ends with, whatever the guest still answers. */
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
  readonly #resolve: (outcome: GuestOutcome) => void;
  #signal: CancelSignal | undefined;
  #onAbort: (() => void) | undefined;
  #closers: ((why: string) => void)[] | undefined;
  /** Why it may reach nothing any more, though it goes on. */
  #revoked: string | undefined;

  constructor(program: GuestProgram, given: GuestCall, now: number, resolve: (outcome: GuestOutcome) => void) {
    this.program = program;
    this.given = given;
    this.deadlineAt = now + given.deadlineMs;
    this.#resolve = resolve;
  }

  get caller(): unknown {
    return this.given.caller;
  }

  get item(): string | undefined {
    return this.given.item;
  }

  /**
   * Calls `onAbort` when the caller gives up, until the caller has its outcome. Both are kept instead of a function
   * that removes the listener: V8 treats a function written into a property as long-lived, and so would keep each call,
   * with all of its request, until it collects the whole heap.
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

  /** Has `close` called when the caller has its outcome, or when what the call may reach was taken from it. */
  onOver(close: (why: string) => void): void {
    const why = this.settled ? OVER : this.#revoked;
    if (why !== undefined) close(why);
    else (this.#closers ??= []).push(close);
  }

  /** Closes what was opened for it. */
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

/** The time between asking a call to stop and no longer waiting for it. */
export const GRACE_MS = 100;
/**
 * The time after which a process that has not even heard of a cancellation counts as stuck. A busy machine delays it.
 */
const REACT_MS = 1_000;

/** Asks the guest to stop; the call ends with `verdict`. One that does not stop takes its process with it. */
export function askToStop(process: GuestProcess, call: PendingCall, verdict: GuestFailure, now: number): void {
  call.verdict ??= verdict;
  call.killAt = now + GRACE_MS;
  call.acknowledged = false;
  process.send(`[${toGuest.cancel},${call.id},"${verdict.reason}"]`);
}

/**
 * Tells if the process has to end, now that the grace is over. A call that overran its deadline takes the process with
 * it; a cancelled one only when the guest does not react at all, otherwise it may go on unheard until its deadline.
 */
export function hasToEnd(call: PendingCall, now: number): boolean {
  const { acknowledged, settled } = call;
  if (call.verdict !== cancelled || now >= call.deadlineAt || (!acknowledged && settled)) return true;
  call.fail(cancelled);
  call.killAt = acknowledged ? 0 : now + REACT_MS;
  return false;
}
