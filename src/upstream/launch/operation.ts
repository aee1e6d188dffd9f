import { isObject, type JsonObject } from "../../lib/json.ts";
import { isReservedKey, single } from "./query-keys.ts";
import type { QueryPair, UriProblems } from "./uri-text.ts";

/** The operation at the server that the URI states. */
export interface Operation {
  /** Absent if there is none, as for `inspect`. */
  readonly target?: OperationTarget;
  readonly arguments: UriArguments;
}

export type OperationTarget =
  | { readonly kind: "tool" | "resource" | "prompt"; readonly name: string }
  | { readonly kind: "list"; readonly name: UpstreamListName };

export const listNames = ["tools", "resources", "templates", "prompts"] as const;
export type UpstreamListName = (typeof listNames)[number];

/** Arguments from a URI: text to be converted by the tool's schema, and JSON that is used as it is. */
export interface UriArguments {
  readonly texts: readonly { readonly name: string; readonly values: readonly string[] }[];
  readonly json: JsonObject;
}

export function readOperation(query: readonly QueryPair[], problems: UriProblems): Operation | undefined {
  const targets = (["tool", "resource", "prompt", "list"] as const).flatMap((kind) => {
    const pair = single(query, kind, problems);
    return pair ? [{ kind, pair }] : [];
  });
  const args = readArguments(query, problems);
  const [first, second] = targets;
  if (second) {
    const { kind, pair } = second;
    return problems.add("two-targets", pair.keyOffset, `${kind}= and ${first!.kind}= exclude each other; give one.`);
  }
  if (!first) return { arguments: args };
  const { kind, pair } = first;
  if (pair.value === "") return problems.add("missing-value", pair.valueOffset, `${kind}= needs a name.`);
  if (kind !== "list") return { target: { kind, name: pair.value }, arguments: args };
  const list = listNames.find((name) => name === pair.value);
  if (list) return { target: { kind, name: list }, arguments: args };
  return problems.add("bad-list", pair.valueOffset, `list= takes ${listNames.join(", ")}, not "${pair.value}".`);
}

function readArguments(query: readonly QueryPair[], problems: UriProblems): UriArguments {
  const json = readJson(query, problems);
  const texts = new Map<string, string[]>();
  for (const { key, value, keyOffset } of query) {
    if (isReservedKey(key) && !key.startsWith("args.")) continue;
    const name = key.startsWith("args.") ? key.slice("args.".length) : key;
    if (name === "") problems.add("missing-key", keyOffset, "args. needs the name of an argument after the dot.");
    if (Object.hasOwn(json, name)) problems.add("duplicate-key", keyOffset, `"${name}" is already given in args={…}.`);
    const values = texts.get(name);
    if (values) values.push(value);
    else texts.set(name, [value]);
  }
  return { texts: [...texts].map(([name, values]) => ({ name, values })), json };
}

function readJson(query: readonly QueryPair[], problems: UriProblems): JsonObject {
  const pair = single(query, "args", problems);
  if (!pair) return {};
  try {
    const value: unknown = JSON.parse(pair.value);
    if (isObject(value)) return value as JsonObject;
    problems.add("bad-arguments", pair.valueOffset, 'args= takes a JSON object, such as args={"gene":"BRAF"}.');
  } catch (error) {
    problems.add("bad-arguments", pair.valueOffset, `args= is not JSON: ${(error as Error).message}.`);
  }
  return {};
}
