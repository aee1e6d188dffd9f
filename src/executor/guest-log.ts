import type { Json } from "../lib/json.ts";
import { isLogLevel } from "../lib/log-level.ts";
import type { GuestLog, GuestProgram } from "./executor.ts";
import { nameUnitsMax } from "./guest/wire.mts";

/** Takes the lines that belong to no call: a bundle's own evaluation, a timer that outlived its call. */
export type LogSink = (program: GuestProgram, line: GuestLog) => void;

/** The line in a log frame, with secrets removed; undefined when its level is unknown. */
export function readLog(
  [, , level, said, logger]: readonly unknown[],
  { hide }: Pick<GuestProgram, "hide">,
): GuestLog | undefined {
  if (!isLogLevel(level)) return undefined;
  const message = (said ?? null) as Json;
  const line = { level, message: hide ? hide(message) : message };
  if (typeof logger !== "string" || logger === "") return line;
  const name = logger.slice(0, nameUnitsMax);
  return { ...line, logger: hide ? (hide(name) as string) : name };
}
