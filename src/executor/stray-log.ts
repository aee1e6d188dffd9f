import { cutText } from "../lib/cut-text.ts";
import type { Limits } from "../limits/limits.ts";
import { TokenBuckets } from "../lib/token-buckets.ts";
import type { ExecutorLog } from "./guest-executor.ts";
import type { LogSink } from "./guest-log.ts";

export type StrayLogLimits = Pick<Limits, "strayLogLinesPerMinutePerTenant">;

/** The burst that is allowed after a time of rest. */
const LINES_AT_ONCE = 1_000;
/** The log gets the beginning of a longer line. */
const LINE_UNITS_MAX = 4_096;

/**
 * Writes guests' lines that belong to no call into the log, and bounds them: a tenant's code that nobody calls must not
 * fill the disk. Dropped lines are counted, and reported with the tenant's next line.
 */
export function strayLog(limits: StrayLogLimits, log: ExecutorLog | undefined): LogSink {
  const perMinute = limits.strayLogLinesPerMinutePerTenant;
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
