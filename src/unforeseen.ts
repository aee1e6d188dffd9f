import { basename, isAbsolute } from "node:path";
import { BerthError } from "./errors.ts";
import type { Log } from "./log.ts";

/** The same error, where the system's own words in it name files of the host by their last part alone. */
export function withoutPaths<E extends Error>(error: E): E {
  let { message } = error;
  let depth = 0;
  for (let each: unknown = error; each instanceof Error && depth < CAUSES_MAX; each = each.cause, depth++) {
    const { path, dest } = each as { path?: unknown; dest?: unknown };
    for (const file of [path, dest]) {
      if (typeof file === "string" && isAbsolute(file)) message = message.replaceAll(file, basename(file));
    }
  }
  if (message !== error.message) error.message = message;
  return error;
}

/** A circle of causes is no reason to go round for ever. */
const CAUSES_MAX = 10;

/**
 * What may be told of an error. One that nobody foresaw may say anything, so it goes into the log, and its caller gets
 * the request's id, by which it is found there.
 */
export function tellable(error: unknown, requestId: string, log: Log, what: string): BerthError {
  if (error instanceof BerthError) return withoutPaths(error);
  log.error({ err: error, requestId }, what);
  return new BerthError("internal", `reference ${requestId}`, { data: { reference: requestId } });
}
