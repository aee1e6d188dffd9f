import type { JsonObject } from "../../json.ts";
import type { ActiveCall } from "./active.mts";
import { hostFetch, readCid, readName } from "./host.mts";
import { logger } from "./console.mts";
import { reportProgress } from "./progress.mts";

/** What a function receives after its parameters when it asks for a context. Everything may be taken out of it. */
export function createContext(call: ActiveCall, data: JsonObject | undefined): object {
  const { id } = call;
  return {
    ...data,
    get signal(): AbortSignal {
      if (!call.controller) {
        call.controller = new AbortController();
        if (call.stopped) call.controller.abort(call.stopped);
      }
      return call.controller.signal;
    },
    /** Sends an event to the caller. Awaiting it keeps the function from running ahead of its reader. */
    progress: (event: unknown) => reportProgress(call, event),
    get log(): object {
      return logger(id);
    },
    variable: (name: string) => readName(id, "variable", name),
    secret: (name: string) => readName(id, "secret", name),
    cid: (cid: string) => readCid(id, cid),
    fetch: (input: unknown, init?: RequestInit) => hostFetch(id, input, init),
  };
}
