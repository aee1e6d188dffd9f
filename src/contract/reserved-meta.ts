import type { JsonObject } from "../lib/json.ts";

/** Keys of `_meta` between two direct peers, never relayed (2026-07-28 `basic#_meta`, SEP-414, tasks extension). */
const RESERVED: ReadonlySet<string> = new Set([
  "progressToken",
  "traceparent",
  "tracestate",
  "baggage",
  "io.modelcontextprotocol/protocolVersion",
  "io.modelcontextprotocol/clientInfo",
  "io.modelcontextprotocol/clientCapabilities",
  "io.modelcontextprotocol/serverInfo",
  "io.modelcontextprotocol/logLevel",
  "io.modelcontextprotocol/subscriptionId",
  "io.modelcontextprotocol/related-task",
]);
const OWN_PREFIX = "dev.berth/";

/** The members to relay; undefined if all are reserved. The same object if none is. */
export function withoutReserved(meta: JsonObject, alsoReserved?: ReadonlySet<string>): JsonObject | undefined {
  const passes = (key: string): boolean =>
    !RESERVED.has(key) && !key.startsWith(OWN_PREFIX) && alsoReserved?.has(key) !== true;
  let [passed, dropped] = [0, 0];
  for (const key in meta) {
    if (passes(key)) passed += 1;
    else dropped += 1;
  }
  if (dropped === 0) return meta;
  // A request of the current revision has reserved keys, and usually only those.
  if (passed === 0) return undefined;
  return Object.fromEntries(Object.entries(meta).filter(([key]) => passes(key)));
}
