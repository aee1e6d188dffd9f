import type { IncomingMessage } from "node:http";
import { beginTrace, type Trace } from "../trace.ts";

const TRACE = Symbol("trace");

/** By what a request is known: the same each time that somebody asks. */
export function traceOf(request: IncomingMessage): Trace {
  const traced = request as IncomingMessage & { [TRACE]?: Trace };
  return (traced[TRACE] ??= beginTrace(request.headers["x-request-id"], request.headers));
}

/** The header of every answer that names its request. */
export const REQUEST_ID_HEADER = "X-Request-Id";
