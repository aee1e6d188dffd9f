import type { Call } from "./call.ts";
import { cancelled } from "./failures.ts";
import type { GuestProcess } from "./guest-process.ts";
import { toGuest } from "./guest/wire.mts";
import type { GuestFailure } from "./executor.ts";

/** How a call is stopped: it is asked to first, and what does not stop by itself takes its process with it. */

/** Between asking a call to stop and waiting for it no more. */
const GRACE_MS = 100;
/** Until a process that has not even heard of a cancellation counts as stuck. On a busy machine it is late at times. */
const REACT_MS = 1_000;

/** Asks the guest to stop; `verdict` is what the call ends with. */
export function askToStop(process: GuestProcess, call: Call, verdict: GuestFailure, now: number): void {
  call.verdict ??= verdict;
  call.killAt = now + GRACE_MS;
  call.acknowledged = false;
  process.send(`[${toGuest.cancel},${call.id},"${verdict.reason}"]`);
}

/**
 * Whether the process has to end, now that the grace is over. A call that overran its deadline takes the process with
 * it; a cancelled one only when the guest does not react at all, otherwise it may go on unheard until its deadline.
 */
export function hasToEnd(call: Call, now: number): boolean {
  const { acknowledged, settled } = call;
  if (call.verdict !== cancelled || now >= call.deadlineAt || (!acknowledged && settled)) return true;
  call.fail(cancelled);
  call.killAt = acknowledged ? 0 : now + REACT_MS;
  return false;
}
