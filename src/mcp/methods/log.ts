import type { GuestLog } from "../../host/catalog/catalog.ts";
import { LOG_LEVELS } from "../../lib/log-level.ts";
import { notificationText } from "../json-rpc.ts";
import type { MethodCall } from "../protocol.ts";

/** The log lines of all calls, on their way to clients. */
export interface ClientLogs {
  /** The limit per call for lines that its client has not taken yet. */
  readonly waitingLogBytes: number;
  /** The lines dropped because their client was too far behind. */
  dropped: number;
}

/** Log lines of guest code, for a client that asked for them, from the level that it asked for. */
export function logReporter(call: Pick<MethodCall, "client" | "events" | "logs">): LogListener | undefined {
  const { logLevel } = call.client;
  if (logLevel === undefined) return undefined;
  const least = LOG_LEVELS.indexOf(logLevel);
  const relay = relayLog(call, ({ level, message }) =>
    notificationText("notifications/message", { level, data: message }),
  );
  return relay && ((line) => (LOG_LEVELS.indexOf(line.level) < least ? undefined : relay(line)));
}

/**
 * Does not wait until a line is taken: a stalled client would hold up the guest, and with it the calls of others. While
 * a client is too far behind, lines are dropped; the next line that it gets follows one that says so.
 */
export function relayLog(
  { events, logs }: Pick<MethodCall, "events" | "logs">,
  write: (line: GuestLog) => string,
): LogListener | undefined {
  if (!events) return undefined;
  let waiting = 0;
  let untold = 0;
  const send = (line: GuestLog): void => {
    const text = write(line);
    const taken = events.send(text);
    if (!taken) return;
    waiting += text.length;
    void taken.then(() => (waiting -= text.length));
  };
  return (line) => {
    if (waiting > logs.waitingLogBytes) {
      untold += 1;
      logs.dropped += 1;
      return;
    }
    if (untold > 0) send({ level: "warning", message: `${untold} log lines were dropped: they were not read in time` });
    untold = 0;
    send(line);
  };
}

type LogListener = (line: GuestLog) => void;
