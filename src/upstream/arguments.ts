import { isObject, type Json, type JsonObject, type JsonSchema } from "../json.ts";
import type { Problem } from "../problem.ts";
import type { GivenArguments } from "./operation.ts";

export interface ConvertedArguments {
  readonly arguments: JsonObject;
  readonly problems: readonly Problem[];
}

/**
 * Text of a URI to the types that a tool's schema names. An argument that the schema does not know stays text. A
 * repeated argument is a list, and so is a single one where the schema wants a list; a list or an object may also be
 * written as JSON. What JSON gave already stays as it is.
 */
export function convertArguments(given: GivenArguments, schema: JsonSchema): ConvertedArguments {
  const problems: Problem[] = [];
  const converted = given.texts.map(({ name, values }): [string, Json] => {
    const property = propertySchema(schema, name);
    const value = convertAll(values, property, schema);
    if (value !== undefined) return [name, value];
    const said = values.map((text) => JSON.stringify(text)).join(", ");
    const wanted = wordsFor(property, schema);
    problems.push({
      code: "bad-argument",
      message: `The argument ${name} must be ${wanted}, not ${said}.`,
      severity: "error",
    });
    return [name, null];
  });
  // Defined one by one, so that a name such as __proto__ is one like any other.
  const result: JsonObject = { ...given.json };
  for (const [name, value] of converted) {
    Object.defineProperty(result, name, { value, enumerable: true, writable: true, configurable: true });
  }
  return { arguments: result, problems };
}

function propertySchema(schema: JsonSchema, name: string): unknown {
  const { properties, additionalProperties } = schema;
  if (isObject(properties) && Object.hasOwn(properties, name)) return properties[name];
  return isObject(additionalProperties) ? additionalProperties : {};
}

function convertAll(values: readonly string[], schema: unknown, root: JsonSchema): Json | undefined {
  const [first = "", ...others] = values;
  if (others.length === 0) return convert(first, schema, root);
  for (const one of alternativesOf(schema, root)) {
    const items = itemsOf(one);
    if (!typesOf(one).includes("array")) continue;
    const list = values.map((value) => convert(value, items, root));
    if (!list.includes(undefined)) return list as Json[];
  }
  return typesOf(schema).length === 0 && !isKnown(schema) ? [...values] : undefined;
}

function convert(text: string, schema: unknown, root: JsonSchema, depth = 0): Json | undefined {
  for (const one of alternativesOf(schema, root, depth)) {
    const members = "const" in one ? [one["const"]] : one["enum"];
    if (Array.isArray(members)) {
      const member: unknown = members.find(
        (value) => (typeof value === "string" ? value : JSON.stringify(value)) === text,
      );
      if (member !== undefined) return member as Json;
      continue;
    }
    const types = typesOf(one);
    if (types.length === 0) return text;
    for (const type of orderedTypes) {
      const value = types.includes(type) ? convertTo(type, text, one, root, depth) : undefined;
      if (value !== undefined) return value;
    }
  }
  return undefined;
}

/** Text is last: anything is text. */
const orderedTypes = ["null", "boolean", "integer", "number", "array", "object", "string"];
const DEPTH_MAX = 8;
/** As JSON writes numbers; `0x10`, ` 1` and an empty text are none. */
const numberForm = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

function convertTo(type: string, text: string, schema: JsonSchema, root: JsonSchema, depth: number): Json | undefined {
  switch (type) {
    case "null":
      return text === "null" ? null : undefined;
    case "boolean":
      return text === "true" ? true : text === "false" ? false : undefined;
    case "integer":
    case "number": {
      const value = numberForm.test(text) ? Number(text) : Number.NaN;
      return Number.isFinite(value) && (type === "number" || Number.isInteger(value)) ? value : undefined;
    }
    case "array": {
      const list = text.startsWith("[") ? parseJson(text) : undefined;
      if (Array.isArray(list)) return list as Json[];
      const item = depth < DEPTH_MAX ? convert(text, itemsOf(schema), root, depth + 1) : undefined;
      return item === undefined ? undefined : [item];
    }
    case "object": {
      const value = parseJson(text);
      return isObject(value) ? (value as JsonObject) : undefined;
    }
    default:
      return text;
  }
}

/** A schema as what it may be: through local references, and one by one for `anyOf` and `oneOf`. */
function alternativesOf(schema: unknown, root: JsonSchema, depth = 0): JsonSchema[] {
  if (!isObject(schema) || depth > DEPTH_MAX) return [{}];
  const { $ref, anyOf, oneOf } = schema;
  if (typeof $ref === "string") return alternativesOf(referenced($ref, root), root, depth + 1);
  const several = Array.isArray(anyOf) ? anyOf : oneOf;
  if (!Array.isArray(several)) return [schema];
  const all = several.flatMap((one) => alternativesOf(one, root, depth + 1));
  // Text takes anything, so whatever else it might be is tried before.
  return [...all.filter((one) => !isText(one)), ...all.filter(isText)];
}

function isText(schema: JsonSchema): boolean {
  return typesOf(schema).includes("string") && !("const" in schema) && !("enum" in schema);
}

function referenced(reference: string, root: JsonSchema): unknown {
  if (!reference.startsWith("#/")) return {};
  const steps = reference.slice(2).split("/");
  return steps.reduce<unknown>((at, step) => {
    const key = step.replaceAll("~1", "/").replaceAll("~0", "~");
    return isObject(at) && Object.hasOwn(at, key) ? at[key] : undefined;
  }, root);
}

function typesOf(schema: unknown): readonly unknown[] {
  if (!isObject(schema)) return [];
  const { type } = schema;
  return Array.isArray(type) ? type : type === undefined ? [] : [type];
}

function itemsOf(schema: JsonSchema): unknown {
  return isObject(schema["items"]) ? schema["items"] : {};
}

function isKnown(schema: unknown): boolean {
  return isObject(schema) && ["enum", "const", "anyOf", "oneOf", "$ref"].some((keyword) => keyword in schema);
}

function wordsFor(schema: unknown, root: JsonSchema): string {
  const words = alternativesOf(schema, root).flatMap((one) => {
    if ("const" in one) return [JSON.stringify(one["const"])];
    if (Array.isArray(one["enum"])) return one["enum"].map((value) => JSON.stringify(value));
    return typesOf(one).map((type) => articles[String(type)] ?? String(type));
  });
  return [...new Set(words)].join(" or ") || "one value";
}

const articles: Record<string, string> = {
  null: "null",
  boolean: "true or false",
  integer: "a whole number",
  number: "a number",
  array: "a list",
  object: "a JSON object",
  string: "a text",
};

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
