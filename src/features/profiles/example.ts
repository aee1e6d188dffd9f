import type { JsonObject, JsonSchema } from "../../lib/json.ts";
import { readOperation } from "../../upstream/launch/operation.ts";
import { isReservedKey } from "../../upstream/launch/query-keys.ts";
import { convertArguments } from "../../upstream/launch/uri-arguments.ts";
import { splitQuery, UriProblems } from "../../upstream/launch/uri-text.ts";
import type { ProfileTool } from "./profile.ts";

/** A call that works according to a profile, as the query of a reference, with the tool's input if known. */
export interface Example {
  readonly query: string;
  readonly input: JsonObject | undefined;
}

/**
 * The first example of a tool, or else its first tested query; undefined if it has none. Tested text that is not a
 * query, such as "BRAF+melanoma", is for people.
 */
export function firstExample({ examples, tested_with: tested }: ProfileTool): Example | undefined {
  const input = examples?.[0]?.input;
  if (input) return { query: asQuery(input), input };
  const query = tested?.find((each) => each.includes("="));
  return query === undefined ? undefined : { query, input };
}

/** The arguments of the call, or why it cannot be made. */
export function exampleArguments(
  { query, input }: Example,
  { arguments: defaults }: ProfileTool,
  inputSchema: JsonSchema,
): JsonObject | string {
  if (input) return { ...defaults, ...input };
  const problems = new UriProblems(query);
  const operation = readOperation(splitQuery({ text: query, offset: 0 }, problems), problems);
  const converted = operation && convertArguments(operation.arguments, inputSchema);
  const wrong = [...problems.list, ...(converted?.problems ?? [])];
  if (wrong.length > 0) return wrong.map(({ message }) => message).join(" ");
  return { ...defaults, ...converted?.arguments };
}

function asQuery(args: JsonObject): string {
  const texts = Object.entries(args).flatMap(([name, value]) => {
    const isPlain = (typeof value === "string" || typeof value === "number") && !isReservedKey(name);
    return isPlain ? [[name, String(value)] as const] : [];
  });
  const pairs = texts.length === Object.keys(args).length ? texts : [["args", JSON.stringify(args)] as const];
  return pairs.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`).join("&");
}
