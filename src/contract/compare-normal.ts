import { isObject, type JsonSchema } from "../json.ts";

/** Schemas in a form in which two can be laid side by side. Knows JSON Schema 2020-12 and nothing of contracts. */

/** Keywords that say nothing about which values are valid. */
const ANNOTATIONS = new Set(
  "title description default examples deprecated readOnly writeOnly $comment $schema $id $anchor $defs definitions".split(
    " ",
  ),
);

export const isAnnotation = (keyword: string): boolean => ANNOTATIONS.has(keyword);

/** Keys sorted, so that equal values have equal texts. `keep` leaves keywords out, and what is in them. */
export function canonical(value: unknown, keep: (key: string) => boolean = () => true): string {
  if (Array.isArray(value)) return `[${value.map((item) => canonical(item, keep)).join(",")}]`;
  if (!isObject(value)) return JSON.stringify(value) ?? "null";
  const members = Object.keys(value)
    .filter(keep)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonical(value[key], keep)}`);
  return `{${members.join(",")}}`;
}

/** What a schema demands, as a text. Members of `properties` are names, whatever they look like. */
export function demands(schema: unknown): string {
  if (!isObject(schema)) return canonical(schema);
  const kept = Object.entries(schema).filter(([keyword]) => !isAnnotation(keyword));
  return canonical(
    Object.fromEntries(
      kept.map(([keyword, value]) => {
        if (isObject(value) && /^(?:properties|patternProperties|dependentSchemas)$/.test(keyword)) {
          return [keyword, Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, demands(inner)]))];
        }
        if (/^(?:enum|const|required|type)$/.test(keyword)) return [keyword, value];
        if (Array.isArray(value)) return [keyword, value.map((item) => demands(item))];
        return [keyword, isObject(value) ? demands(value) : value];
      }),
    ),
  );
}

export interface Resolved {
  readonly schema: JsonSchema;
  /** The reference that led here last. */
  readonly ref?: string;
}

/** `true`, `false` and references as schemas. A reference that leads nowhere stays, as a keyword like any other. */
export function resolve(schema: unknown, root: JsonSchema): Resolved {
  if (schema === false) return { schema: { not: {} } };
  if (!isObject(schema)) return { schema: {} };
  let current: JsonSchema = schema;
  let ref: string | undefined;
  for (let step = 0; step < REFERENCES_MAX && typeof current["$ref"] === "string"; step++) {
    const { $ref, ...beside } = current as JsonSchema & { $ref: string };
    const target = pointed(root, $ref);
    if (!isObject(target)) break;
    const overlap = Object.keys(beside).some(
      (key) => !isAnnotation(key) && Object.hasOwn(target, key) && canonical(beside[key]) !== canonical(target[key]),
    );
    if (overlap) return { schema: { allOf: [target, beside] }, ref: $ref };
    current = { ...target, ...beside };
    ref = $ref;
  }
  return { schema: current, ...(ref !== undefined && { ref }) };
}

const REFERENCES_MAX = 20;

function pointed(root: JsonSchema, ref: string): unknown {
  if (ref === "#") return root;
  if (!ref.startsWith("#/")) return undefined;
  let value: unknown = root;
  for (const step of ref.slice(2).split("/")) {
    const key = decode(step).replaceAll("~1", "/").replaceAll("~0", "~");
    if (!(isObject(value) && Object.hasOwn(value, key)) && !Array.isArray(value)) return undefined;
    value = (value as Record<string, unknown>)[key];
  }
  return value;
}

function decode(step: string): string {
  try {
    return decodeURIComponent(step);
  } catch {
    return step;
  }
}

/** Refuses every value. */
export function isNever(schema: JsonSchema): boolean {
  return isObject(schema["not"]) && Object.keys(schema["not"]).length === 0;
}

const ALL_TYPES = ["null", "boolean", "object", "array", "number", "string"];

/** The types that values may have; `integer` is part of `number`. */
export function typesOf(schema: JsonSchema): readonly string[] {
  const values = valuesOf(schema);
  if (values) return [...new Set(values.map(typeOf))];
  return declaredTypes(schema) ?? ALL_TYPES;
}

export function declaredTypes({ type }: JsonSchema): readonly string[] | undefined {
  if (typeof type === "string") return [type];
  return Array.isArray(type) ? (type as string[]) : undefined;
}

export function coversType(types: readonly string[], type: string): boolean {
  return types.includes(type) || (type === "integer" && types.includes("number"));
}

/** All values, where there are so few that the schema names them. */
export function valuesOf(schema: JsonSchema): readonly unknown[] | undefined {
  const named = Object.hasOwn(schema, "const") ? [schema["const"]] : schema["enum"];
  const types = declaredTypes(schema);
  if (Array.isArray(named)) return types ? named.filter((value) => coversType(types, typeOf(value))) : named;
  if (!types?.every((type) => type === "boolean" || type === "null")) return undefined;
  return types.flatMap((type) => (type === "null" ? [null] : [true, false]));
}

function typeOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return Number.isInteger(value) ? "integer" : typeof value;
}
