import type { DiscoveredTool } from "../../discover/discovery.ts";
import type { ReturnedValue } from "./content.ts";

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
      `undefined. Each way through ${where} has to return a value; ` +
      'if there may be none, write "| undefined" in the type of the result'
    );
  }
  if (value.kind !== "json" || value.nulled === undefined) return broken;
  return `${broken} (${value.nulled}, which JSON writes as null; return a value that JSON has, or write "| null" in the type)`;
}
