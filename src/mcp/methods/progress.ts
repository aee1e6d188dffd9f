import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import { BerthError } from "../../lib/errors.ts";
import { ID_UNITS_MAX, notificationText } from "../json-rpc.ts";
import type { EventSink, MethodCall } from "../protocol.ts";

/** Sends progress to clients that asked for it by a token; it always rises (`basic/patterns/progress`). */
export function progressReporter(
  params: MethodCall["params"],
  events: EventSink,
): ((event: Json) => void | Promise<void>) | undefined {
  const token = isObject(params["_meta"]) ? params["_meta"]["progressToken"] : undefined;
  if (typeof token !== "string" && typeof token !== "number") return undefined;
  if (String(token).length > ID_UNITS_MAX) {
    throw new BerthError("invalid_params", `"progressToken" has at most ${ID_UNITS_MAX} characters`);
  }
  let last = Number.NEGATIVE_INFINITY;
  return (event) => {
    const progress = progressOf(event, last);
    if (progress.progress <= last) return;
    last = progress.progress;
    return events.send(notificationText("notifications/progress", { progressToken: token, ...progress }));
  };
}

/** An event has its own number (`{progress, total, message}`), or is one more step with a message. */
function progressOf(event: Json, last: number): JsonObject & { progress: number } {
  const next = Math.max(last, 0) + 1;
  if (typeof event === "string") return { progress: next, message: event };
  if (!isObject(event) || typeof event["progress"] !== "number") {
    return { progress: next, message: JSON.stringify(event) };
  }
  const { progress, total, message } = event;
  return {
    progress,
    ...(typeof total === "number" && { total }),
    ...(typeof message === "string" && { message }),
  };
}
