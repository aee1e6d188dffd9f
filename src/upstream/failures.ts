import { ProtocolError, SdkError, SdkErrorCode, SdkHttpError } from "@modelcontextprotocol/client";
import type { CancelSignal } from "../lib/cancellation.ts";
import { BerthError, type ErrorCode } from "../lib/errors.ts";
import { refusedByServer, UpstreamError } from "./upstream-error.ts";

/** The client's error for one request, in Berth's words. */
export function failureOf(error: unknown, what: string, signal: CancelSignal | undefined, ended: string): BerthError {
  if (error instanceof BerthError) return error;
  if (signal?.aborted) return new BerthError("cancelled", what, { cause: error });
  if (error instanceof ProtocolError) return refusedByServer(what, error, error);
  if (error instanceof SdkHttpError) return httpFailure(error, what);
  if (error instanceof SdkError) {
    switch (error.code) {
      case SdkErrorCode.RequestTimeout:
        return new UpstreamError("upstream_timeout", what, { cause: error });
      case SdkErrorCode.ConnectionClosed:
      case SdkErrorCode.NotConnected:
      case SdkErrorCode.SendFailed:
        return new UpstreamError("upstream_ended", `${what}: ${ended}`, { cause: error });
      default:
        return new UpstreamError("upstream_protocol", `${what}: ${error.message}`, { cause: error });
    }
  }
  const message = error instanceof Error ? wordsOf(error) : String(error);
  if (message === "Not connected") {
    return new UpstreamError("upstream_ended", `${what}: ${ended}`, { cause: error });
  }
  return new UpstreamError("upstream_protocol", `${what}: ${message}`, { cause: error });
}

/** The cause says more than `fetch failed`. */
export function wordsOf(error: unknown): string {
  const words: string[] = [];
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    if (at.message !== "" && !words.some((known) => known.includes(at.message))) words.push(at.message);
    else if (at instanceof AggregateError && at.message === "") words.push(String(at.errors[0]));
  }
  return words.join(": ");
}

/** Why a connection over HTTP fails, and what a person can do. */
export function httpFailure(error: SdkHttpError, what: string, code: ErrorCode = "upstream_refused"): UpstreamError {
  const { status, statusText } = error.data;
  const advice =
    status === 401 || status === 403
      ? "; a token is given as header.Authorization=Bearer%20${TOKEN}"
      : status === 404 || status === 405
        ? "; is the path right?"
        : "";
  const said = `HTTP ${status}${statusText ? ` ${statusText}` : ""}`;
  return new UpstreamError(code, `${what}: ${said}${advice}`, { data: { status }, cause: error });
}
