import type { Json } from "../json.ts";
import type { GuestLog, GuestProgram } from "./executor.ts";
import { nameUnitsMax } from "./guest/wire.mts";

/** Takes the lines that belong to no call: a bundle's own evaluation, a timer that outlived its call. */
export type LogSink = (program: GuestProgram, line: GuestLog) => void;

const levels = new Set(["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]);

/** The line in a log frame; undefined when its level is none. */
export function readLog([, , level, message, logger]: readonly unknown[]): GuestLog | undefined {
  if (!isLogLevel(level)) return undefined;
  const line = { level, message: (message ?? null) as Json };
  return typeof logger === "string" && logger !== "" ? { ...line, logger: logger.slice(0, nameUnitsMax) } : line;
}

function isLogLevel(level: unknown): level is GuestLog["level"] {
  return typeof level === "string" && levels.has(level);
}
