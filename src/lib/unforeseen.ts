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

/** Whether it is for want of a file descriptor, which others give back: here, or of the system. */
export function lacksDescriptor(error: unknown): boolean {
  let depth = 0;
  for (let each = error; each instanceof Error && depth < CAUSES_MAX; each = each.cause, depth++) {
    const { code } = each as NodeJS.ErrnoException;
    if (code === "EMFILE" || code === "ENFILE") return true;
  }
  return false;
}

export function noDescriptors(cause?: unknown): BerthError {
  const detail = `try again in ${RETRY_AFTER_S} s; whoever runs it can raise its limit (ulimit -n)`;
  return new BerthError("no_descriptors", detail, { data: { retryAfterSeconds: RETRY_AFTER_S }, cause });
}

const RETRY_AFTER_S = 1;

/**
 * What may be told of an error. One that nobody foresaw may say anything, so it goes into the log, and its caller gets
 * the request's id, by which it is found there.
 */
export function tellable(error: unknown, requestId: string, log: Log, what: string): BerthError {
  if (error instanceof BerthError) return withoutPaths(error);
  log.error({ err: error, requestId }, what);
  if (lacksDescriptor(error)) return noDescriptors(error);
  return new BerthError("internal", `reference ${requestId}`, { data: { reference: requestId } });
}
