import { active, type ActiveCall } from "./active.mts";
import { sendSoon } from "./pipe.mts";
import { encodeEvent } from "./values.mts";
import { progressWindow, toHost } from "./wire.mts";

/** Sends an event. Returns a promise to wait for if the call is further ahead of its reader than the window allows. */
export function reportProgress(call: ActiveCall, event: unknown): Promise<void> | undefined {
  if (call.over) return undefined;
  sendSoon(`[${toHost.progress},${call.id},${encodeEvent(event)}]`);
  if (++call.ahead < progressWindow || call.stopped) return undefined;
  call.gate ??= createGate();
  return call.gate.promise;
}

/** The host has delivered `count` events. */
export function credit(id: number, count: number): void {
  const call = active.get(id);
  if (!call) return;
  call.ahead -= count;
  if (call.ahead < progressWindow) openGate(call);
}

/** Resumes all waiting reports. */
export function openGate(call: ActiveCall): void {
  call.gate?.open();
  call.gate = undefined;
}

function createGate(): NonNullable<ActiveCall["gate"]> {
  let open!: () => void;
  const promise = new Promise<void>((resolve) => (open = resolve));
  return { promise, open };
}
