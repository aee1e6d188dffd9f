import { basename, isAbsolute } from "node:path";
import { BerthError } from "./errors.ts";
import type { Log } from "./log.ts";

/** The same error, with paths of host files in the message shortened to their last segment. */
export function withoutPaths<E extends Error>(error: E): E {
  let { message } = error;
  for (const each of errorChain(error)) {
    const { path, dest } = each as { path?: unknown; dest?: unknown };
    for (const file of [path, dest]) {
      if (typeof file === "string" && isAbsolute(file)) message = message.replaceAll(file, basename(file));
    }
  }
  if (message !== error.message) error.message = message;
  return error;
}

/** An error and its causes, outermost first; bounded, because they may form a cycle. */
export function errorChain(error: unknown): Error[] {
  const causes: Error[] = [];
  for (let each = error; each instanceof Error && causes.length < CAUSES_MAX; each = each.cause) causes.push(each);
  return causes;
}

const CAUSES_MAX = 10;

/** True if the cause is a temporary lack of file descriptors, in this process or the system. */
export function isDescriptorShortage(error: unknown): boolean {
  return errorChain(error).some(({ code }: NodeJS.ErrnoException) => code === "EMFILE" || code === "ENFILE");
}

export function noDescriptors(cause?: unknown): BerthError {
  const detail = `try again in ${RETRY_AFTER_S} s; its operator can raise the limit (ulimit -n)`;
  return new BerthError("no_descriptors", detail, { data: { retryAfterSeconds: RETRY_AFTER_S }, cause });
}

const RETRY_AFTER_S = 1;

/**
 * The error that a client may see. The message of an unexpected error may contain anything, so it is only logged, and
 * the client gets the request's id, by which it can be found in the log.
 */
export function toClientError(error: unknown, requestId: string, log: Log, event: string): BerthError {
  if (error instanceof BerthError) return withoutPaths(error);
  log.error({ err: error, requestId }, event);
  if (isDescriptorShortage(error)) return noDescriptors(error);
  return new BerthError("internal", `reference ${requestId}`, { data: { reference: requestId } });
}
