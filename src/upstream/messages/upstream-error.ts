import { cutText } from "../../lib/cut-text.ts";
import { BerthError, type ErrorCode } from "../../lib/errors.ts";
import { countValues } from "../../lib/json.ts";
import { fixed } from "../../limits/fixed.ts";

/** The length of the text, and of the data, of an error for clients: longer text is cut, longer data is dropped. */
export const errorBounds = fixed({ upstreamErrorBytes: 64 * 1024 });

/**
 * An error of an upstream. `stderr` is the end of its output: for the log and the user who started it, never for
 * clients, since its content is unknown.
 */
export class UpstreamError extends BerthError {
  readonly stderr: string;
  /** True if the server has certainly not started the request. */
  readonly isUndone: boolean;

  constructor(
    code: ErrorCode,
    detail: string,
    options: { data?: Record<string, unknown>; cause?: unknown; stderr?: string; isUndone?: boolean } = {},
  ) {
    super(code, detail, options);
    this.stderr = options.stderr ?? "";
    this.isUndone = options.isUndone ?? false;
  }
}

/** The connection was lost; `reason` completes "it …". */
export function connectionEnded(what: string, reason: string, isUndone: boolean, cause?: unknown): UpstreamError {
  return new UpstreamError("upstream_ended", `${what}: it ${reason}`, { isUndone, cause });
}

/** The server's own error for a request; its JSON-RPC code and message, and the HTTP status, are also in the data. */
export function refusedByServer(
  what: string,
  error: { readonly code: number; readonly message: string; readonly data?: unknown },
  { status }: { readonly status?: number } = {},
): UpstreamError {
  const { code, message, data } = shortError({ code: error.code, message: error.message, data: error.data });
  return new UpstreamError("upstream_refused", `${what}: ${message} (${code})`, {
    data: { rpc: code, message, ...(data !== undefined && { data }), ...(status !== undefined && { status }) },
  });
}

/** The server's own error as clients receive it: with its code, message and data in place of Berth's. */
export class RelayedError extends BerthError {
  readonly #rpc: number;

  constructor(
    code: ErrorCode,
    { rpc, message, data }: { readonly rpc: number; readonly message: string; readonly data: unknown },
    cause: unknown,
  ) {
    super(code, undefined, { cause, ...(data !== undefined && { data: data as Record<string, unknown> }) });
    this.message = message;
    this.#rpc = rpc;
  }

  override get detail(): string {
    return this.message;
  }

  override get rpc(): number {
    return this.#rpc;
  }
}

/** Members and items of an error's data; larger data is dropped. */
const ERROR_VALUES_MAX = 1_000;

/** For the message, and for the data as JSON: an error is read, compared and written many times. */
const ERROR_UNITS_MAX = 16 * 1024;

export function shortError<E extends object>(error: E & { readonly message?: unknown; readonly data?: unknown }): E {
  const { message, data } = error;
  const isLong =
    countValues(data, ERROR_VALUES_MAX) > ERROR_VALUES_MAX || (JSON.stringify(data)?.length ?? 0) > ERROR_UNITS_MAX;
  const short = { ...error, ...(typeof message === "string" && { message: cutText(message, ERROR_UNITS_MAX) }) };
  if (isLong) delete short.data;
  return short;
}

/** True when only one method fails: the server is available, and may support everything else. */
export function isMethodError(error: unknown): error is UpstreamError {
  if (!(error instanceof UpstreamError)) return false;
  return error.code === "upstream_refused" || error.code === "upstream_timeout" || error.code === "upstream_protocol";
}

export function isUnknownMethod(error: UpstreamError): boolean {
  return error.data?.["rpc"] === METHOD_NOT_FOUND;
}

const METHOD_NOT_FOUND = -32601;
