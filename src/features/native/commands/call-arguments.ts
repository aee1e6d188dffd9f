import { typeText } from "../../../contract/signature.ts";
import { lazyValidator } from "../../../host/calls/arguments.ts";
import { BerthError } from "../../../lib/errors.ts";
import { isObject, type Json, type JsonObject, type JsonSchema, tryParseJson } from "../../../lib/json.ts";
import { nearestName } from "../../../lib/near-names.ts";
import { printableLine } from "../../../lib/printable.ts";

/**
 * The arguments of a call as they are typed: `name=value`, `--name value`, `--name=value`, or one JSON object, which the
 * others add to. An option without a value is `true`, and a repeated name makes a list. The tool's schema decides how a
 * text is read: as itself where that is allowed, else as JSON. Throws `invalid_params` for anything else.
 */
export function argumentsOf(words: readonly string[], schema: JsonSchema | undefined): JsonObject {
  const texts = new Map<string, string[]>();
  const add = (name: string, text: string): void => void texts.set(name, [...(texts.get(name) ?? []), text]);
  const whole: [string, Json][] = [];
  for (let index = 0; index < words.length; index++) {
    const word = words[index]!;
    const [, option, joined] = /^--([^=]+)(?:=([\s\S]*))?$/.exec(word) ?? [];
    const [, name, text] = /^([^-={[][^=]*)=([\s\S]*)$/.exec(word) ?? [];
    if (name !== undefined) add(name, text!);
    else if (option !== undefined) {
      const next = words[index + 1];
      const isNext = joined === undefined && next !== undefined && !next.startsWith("--");
      add(option, joined ?? (isNext ? next : "true"));
      if (isNext) index++;
    } else if (word.startsWith("{")) whole.push(...Object.entries(objectOf(word, "this argument")));
    else throw new BerthError("invalid_params", `"${word}" has no name; write name=value, --name value, or JSON`);
  }
  const named = Array.from(texts, ([name, given]): [string, Json] => [name, valueOf(given, propertyOf(schema, name))]);
  return Object.fromEntries([...whole, ...named]);
}

/** Reads a JSON object; `where` names its place. Throws `invalid_params`. */
export function objectOf(given: string, where: string): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(given);
  } catch (error) {
    throw new BerthError("invalid_params", `${where} is not JSON: ${(error as Error).message}`);
  }
  if (!isObject(value)) throw new BerthError("invalid_params", `${where} must be a JSON object`);
  return value as JsonObject;
}

/** Throws `invalid_params` for the first argument that the tool does not have, with those that it has. */
export function checkNames(method: string, args: JsonObject, schema: JsonSchema | undefined): void {
  if (schema?.["additionalProperties"] !== false) return;
  const known = Object.keys(propertiesOf(schema));
  const wrong = Object.keys(args).find((name) => !known.includes(name));
  if (wrong === undefined) return;
  const meant = nearestName(wrong, known);
  const suggestion = meant === undefined ? "" : `; did you mean ${printableLine(meant)}?`;
  throw new BerthError(
    "invalid_params",
    `${method} has no parameter "${wrong}"${suggestion}\n${usageOf(method, schema)}`,
  );
}

/** How to call a tool, on one line: `hello.greet name=<string> [times=<number>]`. */
export function usageOf(method: string, schema: JsonSchema): string {
  const { required } = schema;
  const needed = new Set(Array.isArray(required) ? required : []);
  const parameters = Object.entries(propertiesOf(schema)).map(([name, property]) => {
    const shown = `${name}=<${typeText(property)}>`;
    return needed.has(name) ? shown : `[${shown}]`;
  });
  return printableLine(
    parameters.length === 0 ? `${method} takes no arguments` : `usage: ${[method, ...parameters].join(" ")}`,
  );
}

function valueOf(texts: readonly string[], schema: JsonSchema | undefined): Json {
  const values = texts.map(readJson);
  const single: Json[] = texts.length === 1 ? [texts[0]!, values[0]!] : [];
  const isRight = schema && lazyValidator(schema);
  // The validator fills in defaults, so it gets a copy.
  const right = [...single, [...texts], values].find((value) => isRight?.(structuredClone(value)).length === 0);
  return right ?? (values.length === 1 ? values[0]! : values);
}

function readJson(text: string): Json {
  const value = tryParseJson(text);
  return value === undefined ? text : value;
}

function propertiesOf(schema: JsonSchema | undefined): Record<string, unknown> {
  const properties = schema?.["properties"];
  return isObject(properties) ? properties : {};
}

function propertyOf(schema: JsonSchema | undefined, name: string): JsonSchema | undefined {
  const properties = propertiesOf(schema);
  if (!Object.hasOwn(properties, name)) return undefined;
  const property = properties[name];
  if (!isObject(property)) return undefined;
  return { ...property, ...(schema?.["$defs"] !== undefined && { $defs: schema["$defs"] }) };
}
