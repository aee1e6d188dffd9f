import { isObject, type JsonSchema } from "../../lib/json.ts";
import { ELEMENT } from "./schema-sources.ts";
import type { Path } from "./types/walker.ts";

/** Merges a library's schema, which has priority, with the schema of the TypeScript type. */
export function mergeSchemas(own: JsonSchema, typed: JsonSchema | undefined): JsonSchema {
  if (!typed) return own;
  const { description, title, ...rules } = own;
  const annotations = {
    ...(typed["title"] !== undefined && { title: typed["title"] }),
    ...(typed["description"] !== undefined && { description: typed["description"] }),
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    ...("default" in typed && !("default" in own) && { default: typed["default"] }),
  };
  // The library has no rules for some types, such as dates.
  if (Object.keys(rules).every((keyword) => ANNOTATIONS.has(keyword))) return { ...typed, ...rules, ...annotations };
  const { properties, items } = rules;
  return {
    ...rules,
    ...(isObject(properties) && { properties: mergeProperties(properties, typed["properties"]) }),
    ...(isObject(items) && isObject(typed["items"]) && { items: mergeSchemas(items, typed["items"]) }),
    ...annotations,
  };
}

function mergeProperties(own: JsonSchema, typed: unknown): JsonSchema {
  const typedProperties = isObject(typed) ? typed : {};
  const typedPart = (name: string): JsonSchema | undefined =>
    Object.hasOwn(typedProperties, name) && isObject(typedProperties[name]) ? typedProperties[name] : undefined;
  return Object.fromEntries(
    Object.entries(own).map(([name, part]) => [name, isObject(part) ? mergeSchemas(part, typedPart(name)) : part]),
  );
}

/** The schema of a type derived from one with a schema, by `Omit` for instance: it has the properties of the type. */
export function refineSchema(typed: JsonSchema, own: JsonSchema): JsonSchema {
  const [typeProperties, schemaProperties] = [typed["properties"], own["properties"]];
  if (!isObject(typeProperties) || !isObject(schemaProperties)) return typed;
  const properties = Object.entries(typeProperties).map(([name, part]): [string, unknown] => {
    const ownPart = Object.hasOwn(schemaProperties, name) ? schemaProperties[name] : undefined;
    return [name, isObject(ownPart) && isObject(part) ? mergeSchemas(ownPart, part) : part];
  });
  return { ...typed, properties: Object.fromEntries(properties) };
}

/** The schemas of the properties of an object, by name. */
export function propertiesIn({ properties }: JsonSchema): Readonly<Record<string, JsonSchema>> {
  return Object.assign(Object.create(null), isObject(properties) && properties) as Record<string, JsonSchema>;
}

const ANNOTATIONS: ReadonlySet<string> = new Set(["default", "examples", "deprecated", "readOnly", "writeOnly"]);

/** The part of a schema at a path of property names and `ELEMENT`. */
export function schemaPart(schema: JsonSchema, path: readonly string[]): JsonSchema | undefined {
  let part: unknown = schema;
  for (const step of path) {
    part = isObject(part) && (step === ELEMENT ? part["items"] : propertiesIn(part)[step]);
    if (!isObject(part)) return undefined;
  }
  return path.length > 0 && schema["$defs"]
    ? { ...(part as JsonSchema), $defs: schema["$defs"] }
    : (part as JsonSchema);
}

/** A copy of a schema with each schema in it, innermost first, replaced by the result of `change`. */
function mapSchemas(schema: unknown, change: (schema: JsonSchema) => JsonSchema): unknown {
  if (Array.isArray(schema)) return schema.map((item) => mapSchemas(item, change));
  if (!isObject(schema)) return schema;
  const mapValues = (object: JsonSchema, map: (part: unknown, key: string) => unknown): JsonSchema =>
    Object.fromEntries(Object.entries(object).map(([key, part]) => [key, map(part, key)]));
  const mapPart = (part: unknown, keyword: string): unknown => {
    if (VALUES.has(keyword)) return part;
    return NAMES.has(keyword) && isObject(part)
      ? mapValues(part, (item) => mapSchemas(item, change))
      : mapSchemas(part, change);
  };
  return change(mapValues(schema, mapPart));
}

/** Keywords that map names to schemas, and keywords that contain no schemas. */
const NAMES: ReadonlySet<string> = new Set(["properties", "patternProperties", "dependentSchemas", "$defs"]);
const VALUES: ReadonlySet<string> = new Set(["const", "enum", "default", "examples"]);

/** Makes a document part of another: `define` adds a definition to the other, and returns its name there. */
export function embedSchema(
  document: JsonSchema,
  define: (suggested: string, schema: JsonSchema) => string,
): JsonSchema {
  const { $schema: _, $id: _id, $defs, ...root } = document;
  const isRecursive = JSON.stringify(document).includes('"$ref":"#"');
  const title = typeof root["title"] === "string" ? root["title"] : "Value";
  const named = Object.entries(isObject($defs) ? $defs : {}).map(
    ([name, part]) => [REFERENCE + name, name, part] as const,
  );
  const parts = isRecursive ? [...named, ["#", title, root] as const] : named;
  // Definitions refer to each other: get all names before relocating any of them.
  const defined = parts.map(([reference, suggested, part]) => {
    const schema: JsonSchema = {};
    return { reference, part, schema, name: define(suggested, schema) };
  });
  const names = new Map(defined.map(({ reference, name }) => [reference, REFERENCE + name]));
  const relocate = (value: unknown): unknown =>
    mapSchemas(value, (schema) => {
      const { $ref } = schema;
      const target = typeof $ref === "string" && (names.get($ref) ?? names.get(pointerSteps($ref).join("/")));
      return target ? { ...schema, $ref: target } : schema;
    });
  for (const { schema, part } of defined) Object.assign(schema, relocate(part));
  return isRecursive ? { $ref: names.get("#") } : (relocate(root) as JsonSchema);
}

const REFERENCE = "#/$defs/";

/** A reference in a document that does not resolve within it; libraries do not always escape names. */
export function findUnresolvedReference(document: JsonSchema): string | undefined {
  const { $defs } = document;
  const step = (at: unknown, name: string): unknown => (isObject(at) && Object.hasOwn(at, name) ? at[name] : undefined);
  const resolves = (reference: string): boolean => {
    if (reference.startsWith(REFERENCE) && step($defs, reference.slice(REFERENCE.length)) !== undefined) return true;
    const [root, ...steps] = pointerSteps(reference);
    return root === "#" && steps.reduce(step, document) !== undefined;
  };
  const unresolved: string[] = [];
  mapSchemas(document, (schema) => {
    const { $ref } = schema;
    if (typeof $ref === "string" && !resolves($ref)) unresolved.push($ref);
    return schema;
  });
  return unresolved[0];
}

/** The steps of a JSON Pointer. */
function pointerSteps(reference: string): string[] {
  return reference.split("/").map((step) => {
    return decode(step).replaceAll("~1", "/").replaceAll("~0", "~");
  });
}

function decode(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** A schema of results: nothing removes the properties that it does not name. */
export function openSchema(schema: JsonSchema): JsonSchema {
  return without(schema, "additionalProperties", (part) => part === false);
}

/** A schema of values that the library does not parse, so that its defaults are not applied. */
export function withoutDefaults(schema: JsonSchema): JsonSchema {
  return without(schema, "default");
}

function without(schema: JsonSchema, keyword: string, isRemoved: (part: unknown) => boolean = () => true): JsonSchema {
  return mapSchemas(schema, (current) => {
    const { [keyword]: part, ...rest } = current;
    return keyword in current && isRemoved(part) ? rest : current;
  }) as JsonSchema;
}

/** True if a schema has no rules for the values at a path, so that only their type has. */
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

/** The paths at which a schema has a default. */
export function findDefaults(schema: JsonSchema, path: Path = []): Path[] {
  const { properties, items, additionalProperties } = schema;
  const own = "default" in schema ? [path] : [];
  const named = Object.entries(isObject(properties) ? properties : {});
  const inside = [...named, ["*", items] as const, ["*", additionalProperties] as const];
  return [...own, ...inside.flatMap(([step, part]) => (isObject(part) ? findDefaults(part, [...path, step]) : []))];
}
