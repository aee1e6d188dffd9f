import type { DiscoveredTool } from "../../discover/discovery.ts";
import type { GuestFailure } from "../../executor/executor.ts";
import { noDescriptors } from "../../lib/error-mapping.ts";
import { BerthError } from "../../lib/errors.ts";
import { limitVariable } from "../../limits/limits.ts";
import type { ReturnedValue } from "./content.ts";

/**
 * Describes a failed call to its caller. `what` begins the sentence: `The tool "echo"`. `deadline` is the limit that the
 * call's time comes from.
 */
export function messageOf(what: string, error: GuestFailure, deadline: DeadlineLimit = "callMs"): string {
  const again = error.retriable ? "The same call may succeed when repeated." : "";
  if (error.reason === "thrown") return again ? `${error.message}\n${again}` : error.message;
  if (error.reason === "unwritable") return `${what} failed: ${error.message}`;
  const setting = error.reason === "timeout" ? ` (${limitVariable(deadline)})` : "";
  const sentence = `${what} did not finish: ${error.message}${setting}`;
  return again ? `${sentence}. ${again}` : sentence;
}

type DeadlineLimit = "callMs" | "taskMs";

export function guestFailed(what: string, error: GuestFailure, deadline?: DeadlineLimit): BerthError {
  if (error.reason === "descriptors") return noDescriptors();
  return new BerthError("guest_failed", messageOf(what, error, deadline), {
    data: { retriable: error.retriable },
    cause: error,
  });
}

/**
 * Explains in the author's terms why a result violates its type: the schema speaks of JSON, which has null for
 * `undefined` and for numbers that are not finite.
 */
export function sayBroken(
  broken: string,
  value: ReturnedValue,
  own?: Pick<DiscoveredTool, "call" | "file" | "line">,
): string {
  if (value.kind === "none") {
    const where = own ? `the function ${own.call.export} (${own.file}, line ${own.line})` : "the function";
    return (
      `undefined. Every path through ${where} must return a value; ` +
      'if it may return none, add "| undefined" to its return type'
    );
  }
  if (value.kind !== "json" || value.nulled === undefined) return broken;
  return `${broken} (${value.nulled}, which JSON writes as null; return a value that JSON has, or add "| null" to the type)`;
}
