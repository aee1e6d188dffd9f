import type { GuestLog } from "../../host/catalog.ts";
import { LOG_LEVELS } from "../../log-level.ts";
import { notificationText } from "../json-rpc.ts";
import type { Client, EventSink } from "../protocol.ts";

/** Log lines of guest code, for a client that asked for them and from the level that it asked for. */
export function logReporter({ logLevel }: Client, events: EventSink): ((line: GuestLog) => void) | undefined {
  if (logLevel === undefined) return undefined;
  const least = LOG_LEVELS.indexOf(logLevel);
  return ({ level, message }) => {
    if (LOG_LEVELS.indexOf(level) < least) return;
    void events.send(notificationText("notifications/message", { level, data: message }));
  };
}
