import type { JsonObject } from "../lib/json.ts";
import { parseEnvelope } from "./envelope.ts";
import type { Outcome } from "./outcome.ts";

/** The parts of a tool's result that can hold an envelope. */
export interface Unwrappable {
  readonly content: readonly JsonObject[];
  readonly isError?: boolean;
  readonly structuredContent?: unknown;
}

/**
 * The outcome in a tool's result, if its content is exactly one text block that is an envelope (P1); undefined if the
 * result is used as it is. A result marked as an error stays one, whatever its envelope says: a success in it is
 * dropped, and `warn` is called (P2).
 */
export function unwrapResult(result: Unwrappable, warn: (message: string) => void): Outcome | undefined {
  const [block, ...others] = result.content;
  // A tool that returned structured content uses the protocol's own form.
  if (!block || others.length > 0 || result.structuredContent !== undefined) return undefined;
  if (block["type"] !== "text" || typeof block["text"] !== "string") return undefined;
  const outcome = parseEnvelope(block["text"]);
  if (!outcome || !result.isError || outcome.type !== "success") return outcome;
  warn("a result with isError holds a success envelope; it counts as an error");
  return { type: "error", message: outcome.content, trace: [], transient: false };
}
