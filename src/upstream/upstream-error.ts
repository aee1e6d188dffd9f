import { shortError } from "./long-answers.ts";
import { BerthError, type ErrorCode } from "../lib/errors.ts";

/**
 * What went wrong with a server of others. `stderr` is the end of what it wrote there: for the one who started it and
 * for the log, never for clients, since nobody knows what stands in it.
 */
export class UpstreamError extends BerthError {
  readonly stderr: string;

  constructor(
    code: ErrorCode,
    detail: string,
    options: { data?: Record<string, unknown>; cause?: unknown; stderr?: string } = {},
  ) {
    super(code, detail, options);
    this.stderr = options.stderr ?? "";
  }
}

/** The server's own error for a request: its code of JSON-RPC and its words stand in the data, too. */
export function refusedByServer(
  what: string,
  error: { readonly code: number; readonly message: string; readonly data?: unknown },
  cause?: unknown,
): UpstreamError {
  const { code, message, data } = shortError({ code: error.code, message: error.message, data: error.data });
  return new UpstreamError("upstream_refused", `${what}: ${message} (${code})`, {
    data: { rpc: code, message, ...(data !== undefined && { data }) },
    cause,
  });
}

/** The server's own error as clients get it: with its code, words and data in place of Berth's. */
export class PassedOnError extends BerthError {
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
