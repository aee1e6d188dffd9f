import { BerthError } from "../lib/errors.ts";
import { lazyValidator } from "../host/calls/arguments.ts";
import { isObject, type Json, type JsonObject, type JsonSchema } from "../lib/json.ts";

/**
 * Arguments given as flags: `--message hi --times=3 --loud`. A flag without a value is `true`, and a repeated one makes
 * a list. The tool's schema decides how a text is read: as itself where that is allowed, else as JSON. Throws
 * `invalid_params` for anything that is no flag.
 */
export function argumentsOf(flags: readonly string[], schema: JsonSchema | undefined): JsonObject {
  const texts = new Map<string, string[]>();
  for (let index = 0; index < flags.length; index++) {
    const [, name, joined] = /^--([^=]+)(?:=([\s\S]*))?$/.exec(flags[index]!) ?? [];
    if (name === undefined) {
      throw new BerthError("invalid_params", `"${flags[index]}" stands alone; arguments are given as --name value`);
    }
    const next = flags[index + 1];
    const isNext = joined === undefined && next !== undefined && !next.startsWith("--");
    texts.set(name, [...(texts.get(name) ?? []), joined ?? (isNext ? next : "true")]);
    if (isNext) index++;
  }
  return Object.fromEntries([...texts].map(([name, given]) => [name, valueOf(given, propertyOf(schema, name))]));
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
  try {
    return JSON.parse(text) as Json;
  } catch {
    return text;
  }
}

function propertyOf(schema: JsonSchema | undefined, name: string): JsonSchema | undefined {
  const properties = schema?.["properties"];
  if (!isObject(properties) || !Object.hasOwn(properties, name)) return undefined;
  const property = properties[name];
  if (!isObject(property)) return undefined;
  return { ...property, ...(schema?.["$defs"] !== undefined && { $defs: schema["$defs"] }) };
}
