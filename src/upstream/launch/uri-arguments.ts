import { valueAt } from "../../lib/json-pointer.ts";
import { isObject, type Json, type JsonObject, type JsonSchema, tryParseJson } from "../../lib/json.ts";
import type { Problem } from "../../lib/problem.ts";
import type { UriArguments } from "./operation.ts";

export interface ConvertedArguments {
  readonly arguments: JsonObject;
  readonly problems: readonly Problem[];
}

/**
 * Converts text from a URI to the types in a tool's schema. An argument unknown to the schema stays text. A repeated
 * argument is a list, and so is a single one if the schema requires a list; a list or an object may also be written as
 * JSON. Values that were given as JSON stay as they are.
 */
export function convertArguments(given: UriArguments, schema: JsonSchema): ConvertedArguments {
  const problems: Problem[] = [];
  const search = new Search(schema);
  const converted = given.texts.map(({ name, values }): [string, Json] => {
    const property = propertySchema(schema, name);
    const value = convertAll(values, property, search);
    if (value !== undefined) return [name, value];
    const quotedValues = values.map((text) => JSON.stringify(text)).join(", ");
    const expected = describeSchema(property, search);
    problems.push({
      code: "bad-argument",
      message: `The argument ${name} must be ${expected}, not ${quotedValues}.`,
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

function convertAll(values: readonly string[], schema: unknown, search: Search): Json | undefined {
  const [first = "", ...others] = values;
  if (others.length === 0) return convert(first, schema, search);
  for (const one of search.alternatives(schema)) {
    const items = itemSchema(one);
    if (!schemaTypes(one).includes("array")) continue;
    const list: Json[] = [];
    for (const text of values) {
      const value = convert(text, items, search);
      if (value === undefined) break;
      list.push(value);
    }
    if (list.length === values.length) return list;
  }
  return search.isExhausted || (schemaTypes(schema).length === 0 && !isConstrained(schema)) ? [...values] : undefined;
}

/** `seen` holds the schemas that were already tried for this text. */
function convert(text: string, schema: unknown, search: Search, seen: Seen = new Set()): Json | undefined {
  for (const one of search.alternatives(schema, seen)) {
    const members = "const" in one ? [one["const"]] : one["enum"];
    if (Array.isArray(members)) {
      const member: unknown = members.find(
        (value) => (typeof value === "string" ? value : JSON.stringify(value)) === text,
      );
      if (member !== undefined) return member as Json;
      continue;
    }
    const types = schemaTypes(one);
    if (types.length === 0) return text;
    for (const type of orderedTypes) {
      const value = types.includes(type) ? convertTo(type, text, one, search, seen) : undefined;
      if (value !== undefined) return value;
    }
  }
  return undefined;
}

/** Strings come last: any text is a string. */
const orderedTypes = ["null", "boolean", "integer", "number", "array", "object", "string"];
/** The JSON form of numbers, which excludes `0x10`, ` 1` and an empty text. */
const numberForm = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

function convertTo(type: string, text: string, schema: JsonSchema, search: Search, seen: Seen): Json | undefined {
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
      const item = convert(text, itemSchema(schema), search, seen);
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

/** Schemas tried for one text, and steps spent on all texts; texts beyond these limits stay texts. */
const SCHEMAS_MAX = 512;
const STEPS_MAX = 50_000;

/** Bounds the search through an upstream's schema. */
class Search {
  readonly #root: JsonSchema;
  #steps = 0;

  constructor(root: JsonSchema) {
    this.#root = root;
  }

  get isExhausted(): boolean {
    return this.#steps > STEPS_MAX;
  }

  /** The alternatives of a schema: follows local references, and lists each choice of `anyOf` and `oneOf` once. */
  alternatives(schema: unknown, seen: Seen = new Set()): JsonSchema[] {
    const found: JsonSchema[] = [];
    // A string schema accepts any text, so the other types are tried first.
    if (!this.#collect(schema, seen, found)) return [...found.filter((one) => !isStringSchema(one)), {}];
    return [...found.filter((one) => !isStringSchema(one)), ...found.filter(isStringSchema)];
  }

  /** False when a limit is exceeded. */
  #collect(schema: unknown, seen: Seen, found: JsonSchema[]): boolean {
    if (!isObject(schema)) return found.push({}) > 0;
    if (seen.has(schema)) return true;
    const { $ref, anyOf, oneOf } = schema;
    const choices = Array.isArray(anyOf) ? anyOf : oneOf;
    this.#steps += 1 + listLength(schema["enum"]) + listLength(schema["type"]);
    if (seen.size === SCHEMAS_MAX || this.isExhausted) return false;
    seen.add(schema);
    if (typeof $ref === "string") {
      this.#steps += $ref.split("/").length;
      return this.#collect(valueAt(this.#root, $ref), seen, found);
    }
    if (!Array.isArray(choices)) return found.push(schema) > 0;
    return choices.every((one) => this.#collect(one, seen, found));
  }
}

function listLength(list: unknown): number {
  return Array.isArray(list) ? list.length : 0;
}

function isStringSchema(schema: JsonSchema): boolean {
  return schemaTypes(schema).includes("string") && !("const" in schema) && !("enum" in schema);
}

function schemaTypes(schema: unknown): readonly unknown[] {
  if (!isObject(schema)) return [];
  const { type } = schema;
  return Array.isArray(type) ? type : type === undefined ? [] : [type];
}

function itemSchema(schema: JsonSchema): unknown {
  return isObject(schema["items"]) ? schema["items"] : {};
}

function isConstrained(schema: unknown): boolean {
  return isObject(schema) && ["enum", "const", "anyOf", "oneOf", "$ref"].some((keyword) => keyword in schema);
}

function describeSchema(schema: unknown, search: Search): string {
  const words = search.alternatives(schema).flatMap((one) => {
    if ("const" in one) return [JSON.stringify(one["const"])];
    if (Array.isArray(one["enum"])) return one["enum"].map((value) => JSON.stringify(value));
    return schemaTypes(one).map((type) => typeWords[String(type)] ?? String(type));
  });
  return [...new Set(words)].join(" or ") || "one value";
}

const typeWords: Record<string, string> = {
  null: "null",
  boolean: "true or false",
  integer: "a whole number",
  number: "a number",
  array: "a list",
  object: "a JSON object",
  string: "a string",
};
