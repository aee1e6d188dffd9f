import { active, type ActiveCall } from "./active.mts";
import { sendSoon } from "./pipe.mts";
import { encodeEvent } from "./values.mts";
import { progressWindow, toHost } from "./wire.mts";

/**
 * Sends an event. Returns a promise to wait for when the call is further ahead of its reader than the window allows.
 */
export function reportProgress(call: ActiveCall, event: unknown): Promise<void> | undefined {
  if (call.over) return undefined;
  sendSoon(`[${toHost.progress},${call.id},${encodeEvent(event)}]`);
  if (++call.ahead < progressWindow || call.stopped) return undefined;
  call.room ??= createRoom();
  return call.room.promise;
}

/** The host has passed `count` events on. */
export function credit(id: number, count: number): void {
  const call = active.get(id);
  if (!call) return;
  call.ahead -= count;
  if (call.ahead < progressWindow) giveRoom(call);
}

/** Resumes everyone who waits to report more. */
export function giveRoom(call: ActiveCall): void {
  call.room?.open();
  call.room = undefined;
}

function createRoom(): NonNullable<ActiveCall["room"]> {
  let open!: () => void;
  const promise = new Promise<void>((resolve) => (open = resolve));
  return { promise, open };
}
