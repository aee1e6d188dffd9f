import { BerthError } from "../../../lib/errors.ts";
import { isObject, type Json, type JsonObject, type JsonSchema, tryParseJson } from "../../../lib/json.ts";

const NAMES_MAX = 256;

/** Limit of subschemas to visit, through references and combinators. A larger schema is treated as taking strings. */
const SUBSCHEMAS_MAX = 512;

/**
 * Converts query parameters to the types in the tool's input schema: strings if allowed; otherwise numbers, booleans,
 * null and objects as JSON; lists for names that occur more than once or take only lists. A value that cannot be
 * converted stays a string, so that validation reports it.
 */
export function queryArguments(query: string, inputSchema: JsonSchema): JsonObject {
  const texts = new Map<string, string[]>();
  for (const [name, text] of new URLSearchParams(query)) {
    const values = texts.get(name);
    if (values) values.push(text);
    else texts.set(name, [text]);
  }
  if (texts.size > NAMES_MAX) {
    throw new BerthError(
      "invalid_params",
      `the query has ${texts.size} names; the limit is ${NAMES_MAX}. Send more arguments as JSON`,
    );
  }
  let shape = shapes.get(inputSchema);
  if (!shape) shapes.set(inputSchema, (shape = new QueryShape(inputSchema, new References(inputSchema))));
  return Object.fromEntries(Array.from(texts, ([name, all]) => [name, convert(all, shape.property(name))]));
}

function convert(texts: readonly string[], shape: QueryShape): Json {
  const [first = ""] = texts;
  if (texts.length === 1) {
    const value = convertOne(first, shape);
    if (Array.isArray(value) || !shape.takesOnlyLists()) return value;
  }
  if (!shape.takes("array")) return [...texts];
  const element = shape.element();
  return texts.map((text) => convertOne(text, element));
}

function convertOne(text: string, shape: QueryShape): Json {
  if (shape.takes("string")) return text;
  const value = tryParseJson(text);
  return value !== undefined && shape.takes(jsonType(value)) ? value : text;
}

type TypeName = "string" | "number" | "boolean" | "null" | "array" | "object";

function jsonType(value: Json): TypeName {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : (typeof value as TypeName);
}

/** The value types that a schema allows. */
class QueryShape {
  readonly #references: References;
  readonly #parts: readonly Record<string, unknown>[];
  readonly #types: ReadonlySet<unknown> | undefined;
  readonly #isComplete: boolean;
  /** For additional properties. */
  #additional: QueryShape | undefined;

  constructor(schema: unknown, references: References) {
    this.#references = references;
    const parts = new Subschemas(references);
    this.#isComplete = parts.collect(schema);
    this.#parts = [...parts.found];
    const types = this.#isComplete ? this.#parts.flatMap((part) => references.typesIn(part)) : ["string"];
    this.#types = types.length > 0 ? new Set(types) : undefined;
  }

  /** A schema without types allows any JSON, so prefer JSON to a string. */
  takes(type: TypeName): boolean {
    if (!this.#types) return type !== "string";
    return this.#types.has(type) || (type === "number" && this.#types.has("integer"));
  }

  takesOnlyLists(): boolean {
    return this.#types !== undefined && [...this.#types].every((type) => type === "array" || type === "null");
  }

  property(name: string): QueryShape {
    if (!this.#isComplete) return this;
    const found: unknown[] = [];
    for (const { properties } of this.#parts)
      if (isObject(properties) && Object.hasOwn(properties, name)) found.push(properties[name]);
    if (found.some(isObject)) return this.#anyOf(found);
    return (this.#additional ??= this.#anyOf(this.#parts.map(({ additionalProperties }) => additionalProperties)));
  }

  element(): QueryShape {
    if (!this.#isComplete) return this;
    return this.#anyOf(this.#parts.map(({ items }) => items));
  }

  #anyOf(schemas: readonly unknown[]): QueryShape {
    return new QueryShape({ anyOf: schemas.filter(isObject) }, this.#references);
  }
}

/** Cached, because a hostile schema takes long to visit. */
const shapes = new WeakMap<JsonSchema, QueryShape>();

/** Collects the subschemas of a schema. */
class Subschemas {
  readonly found = new Set<Record<string, unknown>>();
  readonly #references: References;
  #remaining = SUBSCHEMAS_MAX;

  constructor(references: References) {
    this.#references = references;
  }

  /** False when there are more than `PARTS_MAX`. */
  collect(schema: unknown): boolean {
    if (--this.#remaining < 0) return false;
    if (!isObject(schema) || this.found.has(schema)) return true;
    this.found.add(schema);
    const { $ref, anyOf, oneOf, allOf } = schema;
    if (typeof $ref === "string" && !this.collect(this.#references.resolve($ref))) return false;
    return [anyOf, oneOf, allOf].filter(Array.isArray).every((parts) => parts.every((part) => this.collect(part)));
  }
}

/** Caches references and types of a document. */
class References {
  readonly #root: unknown;
  readonly #resolved = new Map<string, unknown>();
  readonly #types = new WeakMap<Record<string, unknown>, readonly unknown[]>();

  constructor(root: unknown) {
    this.#root = root;
  }

  /** Resolves a JSON pointer (RFC 6901) within the document. */
  resolve(reference: string): unknown {
    if (!reference.startsWith("#")) return undefined;
    if (this.#resolved.has(reference)) return this.#resolved.get(reference);
    const names = reference.slice(1).split("/").slice(1);
    let found = this.#root;
    for (const name of names) {
      const key = name.replaceAll("~1", "/").replaceAll("~0", "~");
      found = isObject(found) && Object.hasOwn(found, key) ? found[key] : undefined;
    }
    this.#resolved.set(reference, found);
    return found;
  }

  /** Only valid types: a hostile schema may list thousands of others. */
  typesIn(part: Record<string, unknown>): readonly unknown[] {
    let types = this.#types.get(part);
    if (!types) this.#types.set(part, (types = [...new Set(typesIn(part))].filter((type) => TYPES.has(type))));
    return types;
  }
}

const TYPES: ReadonlySet<unknown> = new Set(["string", "number", "integer", "boolean", "null", "array", "object"]);

function typesIn({ type, enum: values, const: value }: Record<string, unknown>): unknown[] {
  if (type !== undefined) return [type].flat();
  if (Array.isArray(values)) return values.map((each) => jsonType(each as Json));
  return value === undefined ? [] : [jsonType(value as Json)];
}
