import { isObject, NESTING_MAX } from "../lib/json.ts";

/** Keywords of JSON Schema whose values map names to schemas. */
export const schemaMapKeywords: ReadonlySet<string> = new Set(
  "properties $defs definitions patternProperties dependentSchemas".split(" "),
);

/** Keywords of JSON Schema whose value is a schema, or a list of schemas. */
export const schemaKeywords: ReadonlySet<string> = new Set(
  (
    "allOf anyOf oneOf not if then else items prefixItems contains additionalProperties additionalItems propertyNames " +
    "unevaluatedItems unevaluatedProperties contentSchema"
  ).split(" "),
);

/** Replaces a schema, and then each schema inside the result. Returns the same object if nothing changes. */
export function mapSchemas(schema: unknown, change: (schema: unknown) => unknown, levels = NESTING_MAX): unknown {
  const changed = change(schema);
  if (!isObject(changed) || levels === 0) return changed;
  const inner = (value: unknown): unknown => mapSchemas(value, change, levels - 1);
  return mapMembers(changed, (value, keyword) => {
    if (schemaMapKeywords.has(keyword)) return isObject(value) ? mapMembers(value, inner) : value;
    if (!schemaKeywords.has(keyword)) return value;
    return Array.isArray(value) ? mapMembers(value, inner) : inner(value);
  });
}

/** Replaces each member of an object, or item of a list. Returns the same object if nothing changes. */
export function mapMembers<T extends object>(object: T, change: (value: unknown, key: string) => unknown): T {
  let isSame = true;
  const members = Object.entries(object).map(([key, value]: [string, unknown]) => {
    const changed = change(value, key);
    isSame &&= changed === value;
    return [key, changed] as const;
  });
  if (isSame) return object;
  return (Array.isArray(object) ? members.map(([, value]) => value) : Object.fromEntries(members)) as T;
}
