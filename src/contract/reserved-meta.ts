import type { JsonObject } from "../lib/json.ts";

/**
 * Keys of `_meta` that two neighbours use between themselves: Berth writes its own towards each side, and believes none
 * that was meant to pass through (2026-07-28 `basic#_meta`, SEP-414 and the tasks extension).
 */
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

/** The members that pass through; undefined if all are reserved. The same object if none is. */
export function withoutReserved(meta: JsonObject, alsoReserved?: ReadonlySet<string>): JsonObject | undefined {
  const passes = (key: string): boolean =>
    !RESERVED.has(key) && !key.startsWith(OWN_PREFIX) && alsoReserved?.has(key) !== true;
  let [passed, left] = [0, 0];
  for (const key in meta) {
    if (passes(key)) passed += 1;
    else left += 1;
  }
  if (left === 0) return meta;
  // A request of today's revision has reserved ones, and mostly those alone.
  if (passed === 0) return undefined;
  return Object.fromEntries(Object.entries(meta).filter(([key]) => passes(key)));
}
