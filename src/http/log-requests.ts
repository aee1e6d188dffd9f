import type { Log } from "../lib/log.ts";
import { traceIdOf } from "../lib/trace.ts";
import type { RequestContext } from "./request-context.ts";

/** Logs one line per request when its answer has ended, without its query, headers or body. */
export function logRequests(log: Log): (context: RequestContext) => void {
  return (context) => {
    const { request, response, trace } = context;
    const beganAt = performance.now();
    // Later steps remove a tenant's prefix from the address.
    const { method, url = "" } = request;
    response.once("close", () => {
      const line = {
        requestId: trace.requestId,
        traceId: traceIdOf(trace),
        method,
        path: url.replace(/[?#].*$/s, ""),
        status: response.statusCode,
        principal: context.principal?.id,
        complete: response.writableFinished,
        ms: Math.round((performance.now() - beganAt) * 1000) / 1000,
      };
      log.debug(line, "a request was answered");
    });
  };
}
