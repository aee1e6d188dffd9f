import { valueAt } from "../lib/json-pointer.ts";
import { isObject, type JsonSchema } from "../lib/json.ts";
import { spend } from "./compare-steps.ts";

/** Schemas in a form that can be compared. Knows JSON Schema 2020-12 and nothing of contracts. */

/** Keywords that do not affect which values are valid. */
const ANNOTATIONS = new Set(
  "title description default examples deprecated readOnly writeOnly $comment $schema $id $anchor $defs definitions".split(
    " ",
  ),
);

export const isAnnotation = (keyword: string): boolean => ANNOTATIONS.has(keyword);

/** JSON with sorted keys, so that equal values give equal texts. `keep` drops keywords together with their values. */
export function canonical(value: unknown, keep: (key: string) => boolean = () => true): string {
  if (Array.isArray(value)) return counted(`[${value.map((item) => canonical(item, keep)).join(",")}]`);
  if (typeof value === "string") spend(value.length >> 5);
  if (!isObject(value)) return counted(JSON.stringify(value) ?? "null");
  return membersText(value, keep, (_, inner) => canonical(inner, keep));
}

/** The constraints of a schema as text. Members of `properties` are names, even if they look like keywords. */
export function constraintsText(schema: unknown): string {
  if (!isObject(schema)) return canonical(schema);
  return membersText(
    schema,
    (keyword) => !isAnnotation(keyword),
    (keyword, value) => {
      if (isObject(value) && /^(?:properties|patternProperties|dependentSchemas)$/.test(keyword)) {
        return membersText(
          value,
          () => true,
          (_, inner) => constraintsText(inner),
        );
      }
      if (/^(?:enum|const|required|type)$/.test(keyword)) return canonical(value);
      return Array.isArray(value) ? counted(`[${value.map(constraintsText).join(",")}]`) : constraintsText(value);
    },
  );
}

function membersText(
  object: JsonSchema,
  keep: (key: string) => boolean,
  format: (key: string, value: unknown) => string,
): string {
  const keys = Object.keys(object);
  spend(keys.length);
  const members = keys
    .filter(keep)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${format(key, object[key])}`);
  return counted(`{${members.join(",")}}`);
}

/** Counts the cost of a text: it is copied into each value that contains it. */
function counted(text: string): string {
  spend(1 + (text.length >> 6));
  return text;
}

/** True if both have the same canonical text; cheaper than creating the two texts. */
export function isSame(one: unknown, other: unknown): boolean {
  spend(typeof one === "string" ? 1 + (one.length >> 10) : 1);
  if (one === other) return true;
  if (Array.isArray(one) && Array.isArray(other)) {
    return one.length === other.length && one.every((item, index) => isSame(item, other[index]));
  }
  if (!isObject(one) || !isObject(other)) return (one ?? null) === (other ?? null);
  const keys = Object.keys(one);
  return (
    keys.length === Object.keys(other).length &&
    keys.every((key) => Object.hasOwn(other, key) && isSame(one[key], other[key]))
  );
}

export interface Resolved {
  readonly schema: JsonSchema;
  /** The last reference followed. */
  readonly ref?: string;
}

/** Turns `true`, `false` and references into schemas. A dangling reference stays, like any other keyword. */
export function resolve(schema: unknown, root: JsonSchema): Resolved {
  if (schema === false) return { schema: { not: {} } };
  if (!isObject(schema)) return { schema: {} };
  let current: JsonSchema = schema;
  let ref: string | undefined;
  for (let step = 0; step < REFERENCES_MAX && typeof current["$ref"] === "string"; step++) {
    const { $ref, ...siblings } = current as JsonSchema & { $ref: string };
    spend($ref.length >> 2);
    const target = valueAt(root, $ref);
    if (!isObject(target)) break;
    spend((Object.keys(target).length + Object.keys(siblings).length) * 3);
    const overlap = Object.keys(siblings).some(
      (key) => !isAnnotation(key) && Object.hasOwn(target, key) && !isSame(siblings[key], target[key]),
    );
    if (overlap) return { schema: { allOf: [target, siblings] }, ref: $ref };
    current = { ...target, ...siblings };
    ref = $ref;
  }
  return { schema: current, ...(ref !== undefined && { ref }) };
}

const REFERENCES_MAX = 20;

/** True if the schema refuses every value. */
export function isNever(schema: JsonSchema): boolean {
  return isObject(schema["not"]) && Object.keys(schema["not"]).length === 0;
}

const ALL_TYPES = ["null", "boolean", "object", "array", "number", "string"];

/** The types that values may have; `integer` is part of `number`. */
export function possibleTypes(schema: JsonSchema): readonly string[] {
  const values = possibleValues(schema);
  if (values) return [...new Set(values.map(jsonType))];
  return declaredTypes(schema) ?? ALL_TYPES;
}

export function declaredTypes({ type }: JsonSchema): readonly string[] | undefined {
  if (typeof type === "string") return [type];
  if (!Array.isArray(type)) return undefined;
  // Only strings name types, and only strings can be displayed.
  return type.every((item) => typeof item === "string") ? type : type.filter((item) => typeof item === "string");
}

export function coversType(types: readonly string[], type: string): boolean {
  return types.includes(type) || (type === "integer" && types.includes("number"));
}

/** All valid values, if the schema lists them. */
export function possibleValues(schema: JsonSchema): readonly unknown[] | undefined {
  const named = Object.hasOwn(schema, "const") ? [schema["const"]] : schema["enum"];
  const types = declaredTypes(schema);
  if (Array.isArray(named)) {
    spend(named.length * (types?.length ?? 1));
    return types ? named.filter((value) => coversType(types, jsonType(value))) : named;
  }
  spend((types?.length ?? 0) >> 2);
  if (!types?.every((type) => type === "boolean" || type === "null")) return undefined;
  return types.flatMap((type) => (type === "null" ? [null] : [true, false]));
}

function jsonType(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return Number.isInteger(value) ? "integer" : typeof value;
}
