import type { Log } from "../lib/log.ts";
import type { Limits } from "../limits/limits.ts";

type Times = Pick<Limits, "drainMs" | "shutdownMs">;
/** The time in which a signal that a process sends to itself takes effect. */
const SIGNALLED_MS = 100;

/**
 * Ends this process when a shutdown, which `begun` announces, exceeds its time, whatever still runs. It takes a signal:
 * `process.exit` waits for threads, such as those of name lookups and files.
 */
export async function boundShutdown({ drainMs, shutdownMs }: Times, log: Log, begun?: Promise<unknown>): Promise<void> {
  await begun;
  const end = (): void => {
    const open = process.getActiveResourcesInfo().filter((kind) => kind !== "Timeout");
    log.error({ open }, "this process did not end in time (BERTH_SHUTDOWN_MS) and terminates itself");
    process.removeAllListeners("SIGTERM");
    process.kill(process.pid, "SIGTERM");
    // The first process of a container ignores signals that it does not handle.
    setTimeout(() => process.abort(), SIGNALLED_MS);
  };
  setTimeout(end, drainMs + shutdownMs).unref();
}
