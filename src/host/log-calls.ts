import type { Log } from "../log.ts";
import { traceIdOf } from "../trace.ts";
import type { CallObserver } from "./observe.ts";

/** One line about each call, and nothing of what was said. */
export function logCalls(log: Log): CallObserver {
  return ({ tool, outcome, ms, retries, size, principal, trace }) => {
    const line = {
      requestId: trace?.requestId,
      traceId: trace && traceIdOf(trace),
      ...tool,
      principal: principal?.id,
      outcome,
      ms: Math.round(ms * 1000) / 1000,
      size,
      retries,
    };
    log.debug(line, "a tool was called");
  };
}
