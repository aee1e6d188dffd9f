import type { IncomingMessage, ServerResponse } from "node:http";
import type { Log } from "../log.ts";
import { traceIdOf } from "../trace.ts";
import { principalOf } from "./access/authenticate.ts";
import { traceOf } from "./trace.ts";

/** One line about each request when its answer has ended, without what its query, headers and body say. */
export function logRequests(log: Log): (request: IncomingMessage, response: ServerResponse) => void {
  return (request, response) => {
    const beganAt = performance.now();
    // Routes take the beginning of an address off when it leads to a tenant.
    const { method, url = "" } = request;
    response.once("close", () => {
      const trace = traceOf(request);
      const line = {
        requestId: trace.requestId,
        traceId: traceIdOf(trace),
        method,
        path: url.replace(/[?#].*$/s, ""),
        status: response.statusCode,
        principal: principalOf(request)?.id,
        complete: response.writableFinished,
        ms: Math.round((performance.now() - beganAt) * 1000) / 1000,
      };
      log.debug(line, "a request was answered");
    });
  };
}
