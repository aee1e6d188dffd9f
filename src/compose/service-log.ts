import type { Config } from "../config.ts";
import { decodePercent } from "../lib/decode-percent.ts";
import { createLog, type Log } from "../lib/log.ts";
import { unknownSettings } from "./unknown-settings.ts";

/** The log of a serving process. Node's warnings go there, too, each kind once, and no longer straight to stderr. */
export function serviceLog(
  { logLevel, adminToken, database }: Config,
  inEachLine?: Readonly<Record<string, number>>,
  show?: (line: string) => string,
): Log {
  const own = createLog(logLevel, [adminToken, ...inDatabase(database)], show);
  const log = inEachLine ? own.child(inEachLine) : own;
  // The primary process reports for its workers.
  if (!inEachLine) for (const sentence of unknownSettings(process.env)) log.warn(sentence);
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

/** The texts of the address of a database that no line may hold. */
export function inDatabase(url: string | undefined): readonly string[] {
  if (url === undefined) return [];
  const { password } = new URL(url);
  return password.length < FINDABLE ? [url] : [url, password, decodePercent(password)];
}

/** A shorter password would be found in texts that have nothing to do with it. */
const FINDABLE = 8;
