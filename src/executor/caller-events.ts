import type { Json } from "../lib/json.ts";
import type { PendingCall } from "./pending-call.ts";
import { cancelled } from "./failures.ts";
import { readLog } from "./guest-log.ts";
import type { GuestProcess } from "./guest-process.ts";
import { toHost } from "./guest/wire.mts";
import { deliverProgress } from "./progress.ts";
import { askToStop } from "./stopping.ts";

/**
 * Tells a caller about its guest's events during the call: progress, a log line, that it goes on as a task, that the
 * stream may be closed. A listener that throws cancels its call; it must not end the host from within a pipe's event.
 */
export function tellCaller(process: GuestProcess, call: PendingCall, frame: readonly unknown[]): void {
  try {
    if (frame[0] === toHost.progress) deliverProgress(process, call, (frame[2] ?? null) as Json);
    else if (call.settled) return;
    else if (frame[0] === toHost.task) becomeTask(call);
    else if (frame[0] === toHost.closeStream) call.given.onCloseStream?.();
    else {
      const line = readLog(frame, call.program);
      if (line) call.given.onLog?.(line);
    }
  } catch {
    if (!call.verdict) askToStop(process, call, cancelled, performance.now());
  }
}

function becomeTask(call: PendingCall): void {
  if (call.isTask) return;
  call.isTask = true;
  call.given.onTask?.();
}
