import { randomUUID } from "node:crypto";
import { toClientError } from "../lib/error-mapping.ts";
import { BerthError, type ErrorCode } from "../lib/errors.ts";
import type { Log } from "../lib/log.ts";
import type { Trace } from "../lib/trace.ts";
import { errorText, type RequestId } from "./json-rpc.ts";
import type { Answer, MethodCall } from "./protocol.ts";

export function errorAnswer(log: Log, id: RequestId | null, error: unknown, trace?: Trace): Answer {
  const requestId = trace?.requestId ?? randomUUID();
  const shown = toClientError(error, requestId, log, "a request failed unexpectedly");
  const denied = shown.code === "forbidden" ? { denied: shown } : undefined;
  return { status: shown.status, body: errorText(id, shown), ...retryAfterHeader(shown), ...denied };
}

/**
 * Like `errorAnswer`, for an error raised by a method: the exchange itself succeeded, so only some codes are HTTP
 * failures.
 */
export function methodErrorAnswer(
  log: Log,
  { id, trace }: Pick<MethodCall, "id" | "trace">,
  error: unknown,
  era: "modern" | "legacy",
): Answer {
  const answer = errorAnswer(log, id, error, trace);
  return isInBand(error, era) ? { ...answer, status: 200 } : answer;
}

/** RFC 9110, 10.2.3. */
function retryAfterHeader({ data }: BerthError): Pick<Answer, "headers"> | undefined {
  const seconds = data?.["retryAfterSeconds"];
  return typeof seconds === "number" ? { headers: { "Retry-After": String(seconds) } } : undefined;
}

function isInBand(error: unknown, era: "modern" | "legacy"): boolean {
  if (!(error instanceof BerthError)) return false;
  // Earlier revisions do not define this error: it comes from an upstream and is meant for the calling client.
  if (error.code === "missing_capability" && era === "legacy") return true;
  return !OUT_OF_BAND.has(error.code);
}

const OUT_OF_BAND: ReadonlySet<ErrorCode> = new Set([
  "missing_capability",
  "method_not_found",
  "not_acceptable",
  "internal",
  "too_many_requests",
  "too_many_processes",
  "no_descriptors",
  "check_failed",
]);
