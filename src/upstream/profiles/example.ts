import type { JsonObject, JsonSchema } from "../../lib/json.ts";
import { convertArguments } from "../arguments.ts";
import { readOperation } from "../operation.ts";
import { isReservedKey } from "../query-keys.ts";
import { splitQuery, UriProblems } from "../uri-text.ts";
import type { ProfileTool } from "./profile.ts";

/** A call that a profile says to work, as the query of a reference, and what to give the tool if that is known. */
export interface Example {
  readonly query: string;
  readonly input: JsonObject | undefined;
}

/**
 * The first example of a tool, or else its first tested query; undefined when it has none. What was tested and is no
 * query, such as "BRAF+melanoma", is for people.
 */
export function firstExample({ examples, tested_with: tested }: ProfileTool): Example | undefined {
  const input = examples?.[0]?.input;
  if (input) return { query: asQuery(input), input };
  const query = tested?.find((each) => each.includes("="));
  return query === undefined ? undefined : { query, input };
}

/** What the tool is called with, or why it cannot be called so. */
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
