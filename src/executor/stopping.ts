import type { PendingCall } from "./pending-call.ts";
import { cancelled } from "./failures.ts";
import type { GuestProcess } from "./guest-process.ts";
import { toGuest } from "./guest/wire.mts";
import type { GuestFailure } from "./executor.ts";

/** Stops a call: it is asked first, and one that does not stop by itself takes its process with it. */

/** The time between asking a call to stop and no longer waiting for it. */
const GRACE_MS = 100;
/**
 * The time after which a process that has not even heard of a cancellation counts as stuck. A busy machine delays it.
 */
const REACT_MS = 1_000;

/** Asks the guest to stop; the call ends with `verdict`. */
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
