import { cutText } from "../lib/cut-text.ts";
import type { Json } from "../lib/json.ts";
import { isLogLevel } from "../lib/log-level.ts";
import { TokenBuckets } from "../lib/token-buckets.ts";
import type { Limits } from "../limits/limits.ts";
import type { GuestLog, GuestProgram } from "./executor.ts";
import { nameUnitsMax } from "./guest/wire.mts";

/** The part of a logger that is used here. */
export interface ExecutorLog {
  debug(data: object, message: string): void;
  info(data: object, message: string): void;
  warn(data: object, message: string): void;
}

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

/** The burst that is allowed after a time of rest. */
const LINES_AT_ONCE = 1_000;
/** The log gets the beginning of a longer line. */
const LINE_UNITS_MAX = 4_096;

/**
 * Writes guests' lines that belong to no call into the log, and bounds them: a tenant's code that nobody calls must not
 * fill the disk. Dropped lines are counted, and reported with the tenant's next line.
 */
export function strayLog(
  { strayLogLinesPerMinutePerTenant: perMinute }: Pick<Limits, "strayLogLinesPerMinutePerTenant">,
  log: ExecutorLog | undefined,
): LogSink {
  const buckets = new TokenBuckets(() => ({ perMinute, burst: LINES_AT_ONCE }));
  const left = new Map<string, number>();
  return ({ tenant, bundle }, { message, ...line }) => {
    if (!log) return;
    if (buckets.take(tenant, performance.now()) > 0) return void left.set(tenant, (left.get(tenant) ?? 0) + 1);
    const leftOut = left.get(tenant);
    left.delete(tenant);
    const said = typeof message === "string" ? message : JSON.stringify(message);
    const shown = said.length > LINE_UNITS_MAX ? cutText(said, LINE_UNITS_MAX) : message;
    log.info({ tenant, bundle, line: { ...line, message: shown }, ...(leftOut && { leftOut }) }, "guest log");
  };
}
