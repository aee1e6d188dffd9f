import type { Log } from "../lib/log.ts";
import type { Limits } from "../limits/limits.ts";

/** The time in which a signal that a process sends to itself takes effect. */
const SIGNALLED_MS = 100;

/** Ends this process when a shutdown that has begun exceeds its time, whatever still runs. */
export function boundShutdown(
  begun: Promise<unknown>,
  { drainMs, shutdownMs }: Pick<Limits, "drainMs" | "shutdownMs">,
  log: Log,
): void {
  void begun.then(() => endWithin(drainMs + shutdownMs, log));
}

/**
 * Ends this process after `ms` unless it has ended before. It takes a signal: `process.exit` waits for threads, such as
 * those of name lookups and files.
 */
export function endWithin(ms: number, log: Log): void {
  setTimeout(() => {
    const open = process.getActiveResourcesInfo().filter((kind) => kind !== "Timeout");
    log.error({ open, ms }, "this process did not end in time (BERTH_SHUTDOWN_MS) and terminates itself");
    process.removeAllListeners("SIGTERM");
    process.kill(process.pid, "SIGTERM");
    // The first process of a container ignores signals that it does not handle.
    setTimeout(() => process.abort(), SIGNALLED_MS);
  }, ms).unref();
}
