import { cutText } from "../lib/cut-text.ts";
import type { Json } from "../lib/json.ts";
import { isLogLevel } from "../lib/log-level.ts";
import { TokenBuckets } from "../lib/token-buckets.ts";
import type { Limits } from "../limits/limits.ts";
import type { GuestLog, GuestProgram } from "./executor.ts";
import { nameUnitsMax } from "./guest/wire.mts";

/** The logger methods used here. */
export interface ExecutorLog {
  debug(data: object, message: string): void;
  info(data: object, message: string): void;
  warn(data: object, message: string): void;
}

/** Receives lines that belong to no call, such as those of a bundle's evaluation or of a late timer. */
export type LogSink = (program: GuestProgram, line: GuestLog) => void;

/** The line in a log frame, with secrets redacted; undefined if its level is unknown. */
export function readLog(
  [, , level, value, logger]: readonly unknown[],
  { hide }: Pick<GuestProgram, "hide">,
): GuestLog | undefined {
  if (!isLogLevel(level)) return undefined;
  const message = (value ?? null) as Json;
  const line = { level, message: hide ? hide(message) : message };
  if (typeof logger !== "string" || logger === "") return line;
  const name = logger.slice(0, nameUnitsMax);
  return { ...line, logger: hide ? (hide(name) as string) : name };
}

/** The burst allowed after an idle period. */
const LINES_AT_ONCE = 1_000;
/** Longer lines are truncated in the log. */
const LINE_UNITS_MAX = 4_096;

/**
 * Logs lines of guests that belong to no call, at a limited rate, so that a tenant's code cannot fill the disk. Dropped
 * lines are counted and reported with the tenant's next line.
 */
export function strayLog(
  { strayLogLinesPerMinutePerTenant: perMinute }: Pick<Limits, "strayLogLinesPerMinutePerTenant">,
  log: ExecutorLog | undefined,
): LogSink {
  const buckets = new TokenBuckets(() => ({ perMinute, burst: LINES_AT_ONCE }));
  const droppedLines = new Map<string, number>();
  return ({ tenant, bundle }, { message, ...line }) => {
    if (!log) return;
    if (buckets.take(tenant, performance.now()) > 0)
      return void droppedLines.set(tenant, (droppedLines.get(tenant) ?? 0) + 1);
    const leftOut = droppedLines.get(tenant);
    droppedLines.delete(tenant);
    const text = typeof message === "string" ? message : JSON.stringify(message);
    const truncated = text.length > LINE_UNITS_MAX ? cutText(text, LINE_UNITS_MAX) : message;
    log.info({ tenant, bundle, line: { ...line, message: truncated }, ...(leftOut && { leftOut }) }, "guest log");
  };
}
