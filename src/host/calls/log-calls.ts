import type { Log } from "../../lib/log.ts";
import { traceIdOf } from "../../lib/trace.ts";
import type { CallObserver } from "./observe.ts";

/** Logs one line per call: nothing that was said, except where a function threw. */
export function logCalls(log: Log): CallObserver {
  return ({ tool, outcome, ms, retries, size, principal, trace, failure }) => {
    const line = {
      requestId: trace?.requestId,
      traceId: trace && traceIdOf(trace),
      ...tool,
      principal: principal?.id,
      outcome,
      ms: Math.round(ms * 1000) / 1000,
      size,
      retries,
      ...(failure?.stack !== undefined && { stack: failure.stack }),
    };
    log.debug(line, "a tool was called");
  };
}
