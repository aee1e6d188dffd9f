import { isObject, type JsonSchema } from "../lib/json.ts";
import { ELEMENT } from "./schema-sources.ts";
import type { Path } from "./types/walker.ts";

/**
 * Merges a library's schema with the schema of the TypeScript type. The library's has priority: it
 * is what checks the values.
 */
export function mergeSchemas(own: JsonSchema, typed: JsonSchema | undefined): JsonSchema {
  if (!typed) return own;
  const { description, title, ...rules } = own;
  const said = {
    ...(typed["title"] !== undefined && { title: typed["title"] }),
    ...(typed["description"] !== undefined && { description: typed["description"] }),
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    ...("default" in typed && !("default" in own) && { default: typed["default"] }),
  };
  // What the library cannot say, such as that of a date.
  if (Object.keys(rules).every((keyword) => ANNOTATIONS.has(keyword))) return { ...typed, ...rules, ...said };
  const { properties, items } = rules;
  return {
    ...rules,
    ...(isObject(properties) && { properties: mergeProperties(properties, typed["properties"]) }),
    ...(isObject(items) && isObject(typed["items"]) && { items: mergeSchemas(items, typed["items"]) }),
    ...said,
  };
}

function mergeProperties(own: JsonSchema, typed: unknown): JsonSchema {
  const known = isObject(typed) ? typed : {};
  const typedPart = (name: string): JsonSchema | undefined =>
    Object.hasOwn(known, name) && isObject(known[name]) ? known[name] : undefined;
  return Object.fromEntries(
    Object.entries(own).map(([name, part]) => [name, isObject(part) ? mergeSchemas(part, typedPart(name)) : part]),
  );
}

/** The schema of a type that is made of one with a schema: the properties are those of the type. */
export function refineSchema(typed: JsonSchema, own: JsonSchema): JsonSchema {
  const [ofType, ofSchema] = [typed["properties"], own["properties"]];
  if (!isObject(ofType) || !isObject(ofSchema)) return typed;
  const properties = Object.entries(ofType).map(([name, part]): [string, unknown] => {
    const better = Object.hasOwn(ofSchema, name) ? ofSchema[name] : undefined;
    return [name, isObject(better) && isObject(part) ? mergeSchemas(better, part) : part];
  });
  return { ...typed, properties: Object.fromEntries(properties) };
}

const ANNOTATIONS: ReadonlySet<string> = new Set(["default", "examples", "deprecated", "readOnly", "writeOnly"]);

/** The part of a schema under names of properties and `ELEMENT`; undefined where it has no such part. */
export function schemaPart(schema: JsonSchema, path: readonly string[]): JsonSchema | undefined {
  let at: unknown = schema;
  for (const step of path) {
    at = step === ELEMENT ? (at as JsonSchema)["items"] : ((at as JsonSchema)["properties"] as JsonSchema)?.[step];
    if (!isObject(at)) return undefined;
  }
  const part = at as JsonSchema;
  return path.length > 0 && schema["$defs"] ? { ...part, $defs: schema["$defs"] } : part;
}

/**
 * A document of its own as a part of another one: `define` puts a schema among the definitions of that, and gives its
 * name there. What refers to the whole document refers to a definition of it then.
 */
export function embedSchema(
  document: JsonSchema,
  define: (suggested: string, schema: JsonSchema) => string,
): JsonSchema {
  const { $schema: _, $id: _id, $defs, ...root } = document;
  const parts = Object.entries(isObject($defs) ? $defs : {}).map(([name, part]): [string, unknown] => [
    REFERENCE + name,
    part,
  ]);
  const isRecursive = JSON.stringify(document).includes('"$ref":"#"');
  if (isRecursive) parts.push(["#", root]);
  // All names are known before any definition is filled, as definitions refer to each other.
  const defined = parts.map(([reference, part]) => {
    const schema: JsonSchema = {};
    const suggested = reference === "#" ? suggestName(root) : reference.slice(REFERENCE.length);
    return { reference, part, schema, name: define(suggested, schema) };
  });
  const names = new Map(defined.map(({ reference, name }) => [reference, REFERENCE + name]));
  const relocate = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(relocate);
    if (!isObject(value)) return value;
    const moved = ([key, part]: [string, unknown]): [string, unknown] =>
      key === "$ref" && typeof part === "string"
        ? [key, names.get(part) ?? names.get(stepsOf(part).join("/")) ?? part]
        : [key, VALUES.has(key) ? part : relocate(part)];
    return Object.fromEntries(Object.entries(value).map(moved));
  };
  for (const { schema, part } of defined) Object.assign(schema, relocate(part));
  return isRecursive ? { $ref: names.get("#") } : (relocate(root) as JsonSchema);
}

const REFERENCE = "#/$defs/";

/** The first reference of a document that leads nowhere in it; libraries do not always escape names. */
export function strayReference(document: JsonSchema): string | undefined {
  const leads = (reference: string): boolean => {
    const [root, ...steps] = stepsOf(reference);
    const isDefined = reference.startsWith(REFERENCE) && isObject(document["$defs"]);
    if (isDefined && Object.hasOwn(document["$defs"] as object, reference.slice(REFERENCE.length))) return true;
    const target = steps.reduce<unknown>(
      (at, step) => (isObject(at) && Object.hasOwn(at, step) ? at[step] : undefined),
      document,
    );
    return root === "#" && target !== undefined;
  };
  const find = (value: unknown): string | undefined => {
    if (Array.isArray(value)) return value.map(find).find((each) => each !== undefined);
    if (!isObject(value)) return undefined;
    const { $ref } = value;
    if (typeof $ref === "string" && !leads($ref)) return $ref;
    const parts = Object.entries(value).filter(([key]) => !VALUES.has(key));
    return parts.map(([, part]) => find(part)).find((each) => each !== undefined);
  };
  return find(document);
}

/** The steps of a JSON Pointer, as a reference has it. */
function stepsOf(reference: string): string[] {
  return reference.split("/").map((step) => {
    return unescaped(step).replaceAll("~1", "/").replaceAll("~0", "~");
  });
}

function unescaped(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

function suggestName({ title }: JsonSchema): string {
  return typeof title === "string" ? title : "Value";
}

/** A schema of what a program gives back: nothing removes the properties that it does not name. */
export function openSchema(schema: JsonSchema): JsonSchema {
  return without(schema, (keyword, part) => keyword === "additionalProperties" && part === false);
}

/** A schema of values that the library does not parse, so that nothing fills in its defaults. */
export function withoutDefaults(schema: JsonSchema): JsonSchema {
  return without(schema, (keyword) => keyword === "default");
}

function without(schema: JsonSchema, isLeftOut: (keyword: string, part: unknown) => boolean): JsonSchema {
  const reduce = (value: unknown, areNames = false): unknown => {
    if (Array.isArray(value)) return value.map((each) => reduce(each));
    if (!isObject(value)) return value;
    const kept = Object.entries(value).filter(([key, part]) => areNames || !isLeftOut(key, part));
    return Object.fromEntries(
      kept.map(([key, part]) => [key, !areNames && VALUES.has(key) ? part : reduce(part, !areNames && NAMES.has(key))]),
    );
  };
  return reduce(schema) as JsonSchema;
}

/** Keywords that have schemas under names, and those that have no schemas. */
const NAMES: ReadonlySet<string> = new Set(["properties", "patternProperties", "dependentSchemas", "$defs"]);
const VALUES: ReadonlySet<string> = new Set(["const", "enum", "default", "examples"]);

/** True if a schema says nothing of the values at a place, so that only their type does. */
export function leavesOpen(schema: JsonSchema, path: Path): boolean {
  const part = path.reduce<unknown>((at, step) => {
    if (!isObject(at)) return undefined;
    const { properties, items, additionalProperties, prefixItems } = at;
    if (Array.isArray(prefixItems) && /^\d+$/.test(step)) return prefixItems[Number(step)] as unknown;
    return step === "*"
      ? (items ?? additionalProperties)
      : isObject(properties) && Object.hasOwn(properties, step)
        ? properties[step]
        : undefined;
  }, schema);
  return isObject(part) && Object.keys(part).every((keyword) => ANNOTATIONS.has(keyword) || TEXTS.has(keyword));
}

const TEXTS: ReadonlySet<string> = new Set(["$schema", "title", "description"]);

/** The places of a schema that have a default. */
export function defaultsIn(schema: JsonSchema, path: Path = []): Path[] {
  const { properties, items, additionalProperties } = schema;
  const own = "default" in schema ? [path] : [];
  const named = Object.entries(isObject(properties) ? properties : {});
  const inside = [...named, ["*", items] as const, ["*", additionalProperties] as const];
  return [...own, ...inside.flatMap(([step, part]) => (isObject(part) ? defaultsIn(part, [...path, step]) : []))];
}
