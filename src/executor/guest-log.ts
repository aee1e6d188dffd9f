import type { GuestLog, GuestProgram } from "./executor.ts";

/** Takes the lines that belong to no call: a bundle's own evaluation, a timer that outlived its call. */
export type LogSink = (program: GuestProgram, line: GuestLog) => void;

const levels = new Set(["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]);

export function isLogLevel(level: unknown): level is GuestLog["level"] {
  return typeof level === "string" && levels.has(level);
}
