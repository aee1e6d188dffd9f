import { basename, isAbsolute } from "node:path";
import { BerthError } from "./errors.ts";
import type { Log } from "./log.ts";

/** The same error, with the paths of host files in the system's message cut to their last part. */
export function withoutPaths<E extends Error>(error: E): E {
  let { message } = error;
  for (const each of causesOf(error)) {
    const { path, dest } = each as { path?: unknown; dest?: unknown };
    for (const file of [path, dest]) {
      if (typeof file === "string" && isAbsolute(file)) message = message.replaceAll(file, basename(file));
    }
  }
  if (message !== error.message) error.message = message;
  return error;
}

/** An error and its causes, outermost first; a bounded number of them, because they may form a circle. */
export function causesOf(error: unknown): Error[] {
  const causes: Error[] = [];
  for (let each = error; each instanceof Error && causes.length < CAUSES_MAX; each = each.cause) causes.push(each);
  return causes;
}

const CAUSES_MAX = 10;

/** True if the cause is a lack of file descriptors, in this process or the system, which others will release. */
export function lacksDescriptor(error: unknown): boolean {
  return causesOf(error).some(({ code }: NodeJS.ErrnoException) => code === "EMFILE" || code === "ENFILE");
}

export function noDescriptors(cause?: unknown): BerthError {
  const detail = `try again in ${RETRY_AFTER_S} s; whoever runs it can raise its limit (ulimit -n)`;
  return new BerthError("no_descriptors", detail, { data: { retryAfterSeconds: RETRY_AFTER_S }, cause });
}

const RETRY_AFTER_S = 1;

/**
 * The error that a caller may see. The text of an unforeseen error may say anything, so it goes into the log, and the
 * caller gets the request's id, by which it is found there.
 */
export function tellable(error: unknown, requestId: string, log: Log, what: string): BerthError {
  if (error instanceof BerthError) return withoutPaths(error);
  log.error({ err: error, requestId }, what);
  if (lacksDescriptor(error)) return noDescriptors(error);
  return new BerthError("internal", `reference ${requestId}`, { data: { reference: requestId } });
}
