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

/** The members that pass through; undefined if there are none. The same object if none is reserved. */
export function withoutReserved(meta: JsonObject, alsoReserved?: ReadonlySet<string>): JsonObject | undefined {
  let passed = meta;
  let left = 0;
  for (const key in meta) {
    if (!RESERVED.has(key) && !key.startsWith(OWN_PREFIX) && !alsoReserved?.has(key)) {
      left += 1;
      continue;
    }
    if (passed === meta) passed = { ...meta };
    delete passed[key];
  }
  return left === 0 && passed !== meta ? undefined : passed;
}
