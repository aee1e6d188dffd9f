import type { Json, JsonObject } from "../../lib/json.ts";

/** The text of each of these arguments; undefined for those that are not given. */
export function argumentTexts(args: JsonObject, names: readonly string[]): (string | undefined)[] {
  return names.map((name) => (Object.hasOwn(args, name) ? textOf(args[name]) : undefined));
}

/** Scalars as themselves, lists one element per line, everything else as JSON; a missing value is empty. */
function textOf(value: Json | undefined): string {
  if (value === undefined || value === null) return "";
  if (Array.isArray(value)) return value.map(textOf).join("\n");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
