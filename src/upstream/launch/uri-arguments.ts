import { valueAt } from "../../lib/json-pointer.ts";
import { isObject, type Json, type JsonObject, type JsonSchema, tryParseJson } from "../../lib/json.ts";
import type { Problem } from "../../lib/problem.ts";
import type { GivenArguments } from "./operation.ts";

export interface ConvertedArguments {
  readonly arguments: JsonObject;
  readonly problems: readonly Problem[];
}

/**
 * Converts text from a URI to the types that a tool's schema names. An argument unknown to the schema stays text. A
 * repeated argument is a list, and so is a single one where the schema wants a list; a list or an object may also be
 * written as JSON. Values that were given as JSON stay as they are.
 */
export function convertArguments(given: GivenArguments, schema: JsonSchema): ConvertedArguments {
  const problems: Problem[] = [];
  const reach = new Reach(schema);
  const converted = given.texts.map(({ name, values }): [string, Json] => {
    const property = propertySchema(schema, name);
    const value = convertAll(values, property, reach);
    if (value !== undefined) return [name, value];
    const said = values.map((text) => JSON.stringify(text)).join(", ");
    const wanted = wordsFor(property, reach);
    problems.push({
      code: "bad-argument",
      message: `The argument ${name} must be ${wanted}, not ${said}.`,
      severity: "error",
    });
    return [name, null];
  });
  // Defined one by one, so that names such as __proto__ are not special.
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

function convertAll(values: readonly string[], schema: unknown, reach: Reach): Json | undefined {
  const [first = "", ...others] = values;
  if (others.length === 0) return convert(first, schema, reach);
  for (const one of reach.alternativesOf(schema)) {
    const items = itemsOf(one);
    if (!typesOf(one).includes("array")) continue;
    const list: Json[] = [];
    for (const text of values) {
      const value = convert(text, items, reach);
      if (value === undefined) break;
      list.push(value);
    }
    if (list.length === values.length) return list;
  }
  return reach.isOver || (typesOf(schema).length === 0 && !isKnown(schema)) ? [...values] : undefined;
}

/** `seen` holds the schemas already tried for this text: it would fit no better again. */
function convert(text: string, schema: unknown, reach: Reach, seen: Seen = new Set()): Json | undefined {
  for (const one of reach.alternativesOf(schema, seen)) {
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
      const value = types.includes(type) ? convertTo(type, text, one, reach, seen) : undefined;
      if (value !== undefined) return value;
    }
  }
  return undefined;
}

/** Text is last: anything is text. */
const orderedTypes = ["null", "boolean", "integer", "number", "array", "object", "string"];
/** The JSON form of numbers, which excludes `0x10`, ` 1` and an empty text. */
const numberForm = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

function convertTo(type: string, text: string, schema: JsonSchema, reach: Reach, seen: Seen): Json | undefined {
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
      const list = text.startsWith("[") ? tryParseJson(text) : undefined;
      if (Array.isArray(list)) return list;
      const item = convert(text, itemsOf(schema), reach, seen);
      return item === undefined ? undefined : [item];
    }
    case "object": {
      const value = tryParseJson(text);
      return isObject(value) ? value : undefined;
    }
    default:
      return text;
  }
}

type Seen = Set<JsonSchema>;

/** The most schemas tried for one text, and the most steps spent for all texts; texts beyond these stay texts. */
const SCHEMAS_MAX = 512;
const STEPS_MAX = 50_000;

/** Bounds the search through an upstream's schema. */
class Reach {
  readonly #root: JsonSchema;
  #steps = 0;

  constructor(root: JsonSchema) {
    this.#root = root;
  }

  get isOver(): boolean {
    return this.#steps > STEPS_MAX;
  }

  /** The alternatives of a schema: follows local references, and lists each choice of `anyOf` and `oneOf` once. */
  alternativesOf(schema: unknown, seen: Seen = new Set()): JsonSchema[] {
    const found: JsonSchema[] = [];
    // Text accepts anything, so the other types are tried first.
    if (!this.#collect(schema, seen, found)) return [...found.filter((one) => !isText(one)), {}];
    return [...found.filter((one) => !isText(one)), ...found.filter(isText)];
  }

  /** False if there is more than may be looked at. */
  #collect(schema: unknown, seen: Seen, found: JsonSchema[]): boolean {
    if (!isObject(schema)) return found.push({}) > 0;
    if (seen.has(schema)) return true;
    const { $ref, anyOf, oneOf } = schema;
    const several = Array.isArray(anyOf) ? anyOf : oneOf;
    this.#steps += 1 + lengthOf(schema["enum"]) + lengthOf(schema["type"]);
    if (seen.size === SCHEMAS_MAX || this.isOver) return false;
    seen.add(schema);
    if (typeof $ref === "string") {
      this.#steps += $ref.split("/").length;
      return this.#collect(valueAt(this.#root, $ref), seen, found);
    }
    if (!Array.isArray(several)) return found.push(schema) > 0;
    return several.every((one) => this.#collect(one, seen, found));
  }
}

function lengthOf(list: unknown): number {
  return Array.isArray(list) ? list.length : 0;
}

function isText(schema: JsonSchema): boolean {
  return typesOf(schema).includes("string") && !("const" in schema) && !("enum" in schema);
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

function wordsFor(schema: unknown, reach: Reach): string {
  const words = reach.alternativesOf(schema).flatMap((one) => {
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
  string: "a string",
};
