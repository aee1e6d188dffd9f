import { randomUUID } from "node:crypto";
import { tellable } from "../lib/error-mapping.ts";
import { BerthError, type ErrorCode } from "../lib/errors.ts";
import type { Log } from "../lib/log.ts";
import type { Trace } from "../lib/trace.ts";
import { errorText, type RequestId } from "./json-rpc.ts";
import type { Answer, MethodCall } from "./protocol.ts";

/** The answer to a request that failed, whatever it failed of. */
export function errorAnswer(log: Log, id: RequestId | null, error: unknown, trace?: Trace): Answer {
  const requestId = trace?.requestId ?? randomUUID();
  const shown = tellable(error, requestId, log, "a request failed unexpectedly");
  const denied = shown.code === "forbidden" ? { denied: shown } : undefined;
  return { status: shown.status, body: errorText(id, shown), ...whenToRetry(shown), ...denied };
}

/**
 * The same for an error that a method itself reports: it is the payload of a successful exchange, and only some codes
 * are also HTTP failures.
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
function whenToRetry({ data }: BerthError): Pick<Answer, "headers"> | undefined {
  const seconds = data?.["retryAfterSeconds"];
  return typeof seconds === "number" ? { headers: { "Retry-After": String(seconds) } } : undefined;
}

function isInBand(error: unknown, era: "modern" | "legacy"): boolean {
  if (!(error instanceof BerthError)) return false;
  // Earlier revisions know no such error: it comes from an upstream, and is for the client that called.
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
