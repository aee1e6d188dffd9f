import type { DiscoveredTool } from "../discover/discovery.ts";
import type { ReturnedValue } from "./content.ts";

/**
 * Why a result is none that its type allows, in the words of whoever wrote the function: JSON has null for what was
 * `undefined` or no number, and its schema speaks of JSON.
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
