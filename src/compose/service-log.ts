import type { Config } from "../config.ts";
import { createLog, type Log } from "../lib/log.ts";

/** The log of a serving process. Node's warnings go there, too, each kind once, and no longer straight to stderr. */
export function serviceLog(
  { logLevel, adminToken, limits }: Config,
  inEachLine?: Readonly<Record<string, number>>,
): Log {
  const own = createLog(logLevel, [adminToken], limits.logBufferBytes);
  const log = inEachLine ? own.child(inEachLine) : own;
  const told = new Set<string>();
  // Node's own listener writes each of them to stderr, and waits for that.
  process.removeAllListeners("warning").on("warning", (err: Error & { code?: string }) => {
    const kind = `${err.name} ${err.code ?? ""}`;
    if (told.has(kind)) return;
    told.add(kind);
    log.warn({ err }, "a warning from Node; further ones of its kind are not logged");
  });
  return log;
}
