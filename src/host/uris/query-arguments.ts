import { isObject, type Json, type JsonObject, type JsonSchema } from "../../json.ts";

/**
 * The arguments in a query, as the tool's input schema wants them: a text where it takes texts, numbers, booleans and
 * null as JSON writes them, JSON for objects, and a list for a name that stands there more than once or is to be one.
 * What cannot be converted stays a text, so that the check of the arguments says what is wrong with it.
 */
export function queryArguments(query: string, inputSchema: JsonSchema): JsonObject {
  const texts = new Map<string, string[]>();
  for (const [name, text] of new URLSearchParams(query)) {
    const known = texts.get(name);
    if (known) known.push(text);
    else texts.set(name, [text]);
  }
  const shape = new Shape(inputSchema);
  return Object.fromEntries(Array.from(texts, ([name, all]) => [name, convert(all, shape.property(name))]));
}

function convert(texts: readonly string[], shape: Shape): Json {
  const [first = ""] = texts;
  if (texts.length === 1) {
    const value = convertOne(first, shape);
    if (Array.isArray(value) || !shape.takesOnlyLists()) return value;
  }
  if (!shape.takes("array")) return [...texts];
  return texts.map((text) => convertOne(text, shape.element()));
}

function convertOne(text: string, shape: Shape): Json {
  if (shape.takes("string")) return text;
  const value = parsed(text);
  return value !== undefined && shape.takes(typeOf(value)) ? value : text;
}

function parsed(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

type TypeName = "string" | "number" | "boolean" | "null" | "array" | "object";

function typeOf(value: Json): TypeName {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : (typeof value as TypeName);
}

/** What a schema says about the kinds of a value, as far as a query needs it. */
class Shape {
  readonly #root: unknown;
  readonly #parts: readonly Record<string, unknown>[];
  readonly #types: ReadonlySet<unknown> | undefined;

  constructor(schema: unknown, root: unknown = schema) {
    this.#root = root;
    this.#parts = [...partsOf(schema, root, new Set())];
    const types = this.#parts.flatMap(typesIn);
    this.#types = types.length > 0 ? new Set(types) : undefined;
  }

  /** A schema that says nothing takes any JSON, and so a text only where that is none. */
  takes(type: TypeName): boolean {
    if (!this.#types) return type !== "string";
    return this.#types.has(type) || (type === "number" && this.#types.has("integer"));
  }

  takesOnlyLists(): boolean {
    return this.#types !== undefined && [...this.#types].every((type) => type === "array" || type === "null");
  }

  property(name: string): Shape {
    const found = this.#parts.map(({ properties }) =>
      isObject(properties) && Object.hasOwn(properties, name) ? properties[name] : undefined,
    );
    const others = this.#parts.map(({ additionalProperties }) => additionalProperties);
    return new Shape({ anyOf: [...found, ...(found.some(isObject) ? [] : others)].filter(isObject) }, this.#root);
  }

  element(): Shape {
    return new Shape({ anyOf: this.#parts.map(({ items }) => items).filter(isObject) }, this.#root);
  }
}

/** The schemas that one consists of: itself, what it refers to, and all that it is composed of. */
function partsOf(schema: unknown, root: unknown, found: Set<Record<string, unknown>>): typeof found {
  if (!isObject(schema) || found.has(schema)) return found;
  found.add(schema);
  const referred = typeof schema["$ref"] === "string" ? [resolve(schema["$ref"], root)] : [];
  const composed = [schema["anyOf"], schema["oneOf"], schema["allOf"]].filter(Array.isArray).flat();
  for (const part of [...referred, ...composed]) partsOf(part, root, found);
  return found;
}

/** A pointer within the document (RFC 6901). */
function resolve(reference: string, root: unknown): unknown {
  if (!reference.startsWith("#")) return undefined;
  const names = reference.slice(1).split("/").slice(1);
  let found = root;
  for (const name of names) {
    const key = name.replaceAll("~1", "/").replaceAll("~0", "~");
    found = isObject(found) && Object.hasOwn(found, key) ? found[key] : undefined;
  }
  return found;
}

function typesIn({ type, enum: values, const: value }: Record<string, unknown>): unknown[] {
  if (type !== undefined) return [type].flat();
  if (Array.isArray(values)) return values.map((each) => typeOf(each as Json));
  return value === undefined ? [] : [typeOf(value as Json)];
}
