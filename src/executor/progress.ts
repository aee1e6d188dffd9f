import type { Json } from "../lib/json.ts";
import type { PendingCall } from "./pending-call.ts";
import type { GuestProcess } from "./guest-process.ts";
import { creditStep, progressWindow, toGuest } from "./guest/wire.mts";

/**
 * Hands one progress event to the call's consumer. A consumer that returns a promise is waited for: the guest gets its
 * credit only then, and a guest that goes on without credit is not read from until the consumer has caught up.
 */
export function deliverProgress(process: GuestProcess, call: PendingCall, event: Json): void {
  const consumed = call.settled ? undefined : call.given.onProgress?.(event);
  if (!consumed) return credit(process, call);

  if (++call.unconsumed === 2 * progressWindow) process.hold();
  const onConsumed = (): void => {
    if (call.unconsumed-- === 2 * progressWindow) process.release();
    credit(process, call);
  };
  consumed.then(onConsumed, onConsumed);
}

function credit(process: GuestProcess, call: PendingCall): void {
  if (++call.uncredited < creditStep) return;
  call.uncredited = 0;
  if (!call.settled) process.send(`[${toGuest.credit},${call.id},${creditStep}]`);
}
