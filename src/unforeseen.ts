import { BerthError } from "./errors.ts";
import type { Log } from "./log.ts";

/**
 * What may be told of an error. One that nobody foresaw may say anything, so it goes into the log, and its caller gets
 * the request's id, by which it is found there.
 */
export function tellable(error: unknown, requestId: string, log: Log, what: string): BerthError {
  if (error instanceof BerthError) return error;
  log.error({ err: error, requestId }, what);
  return new BerthError("internal", `reference ${requestId}`, { data: { reference: requestId } });
}
