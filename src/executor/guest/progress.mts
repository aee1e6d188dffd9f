import { active, type ActiveCall } from "./active.mts";
import { sendSoon } from "./pipe.mts";
import { encodeJson } from "./values.mts";
import { progressWindow, toHost } from "./wire.mts";

/** Sends an event; gives something to wait for when the call is further ahead of its reader than the window allows. */
export function reportProgress(call: ActiveCall, event: unknown): Promise<void> | undefined {
  sendSoon(`[${toHost.progress},${call.id},${encodeJson(event)}]`);
  return ++call.ahead >= progressWindow ? room(call) : undefined;
}

/** The host has passed `count` events on. */
export function credit(id: number, count: number): void {
  const call = active.get(id);
  if (!call) return;
  call.ahead -= count;
  call.wake?.();
}

/** Resolves when the host has taken in enough progress, or wants the call to stop. */
async function room(call: ActiveCall): Promise<void> {
  while (call.ahead >= progressWindow && !call.stopped) {
    await new Promise<void>((resolve) => {
      const outer = call.wake;
      call.wake = () => {
        outer?.();
        resolve();
      };
    });
    call.wake = undefined;
  }
}
