import { mapsOfSchemas, placesOfSchemas } from "../../contract/subschemas.ts";
import { isObject, NESTING_MAX, type JsonSchema } from "../../lib/json.ts";

/**
 * Rewrites a schema for clients that may know only draft 7, such as the SDK of the legacy revisions, which rejects
 * results by it. Draft 7 has no `prefixItems` and checks every element against `items`: no tuple passes. The rewritten
 * tuples mean the same in 2020-12, and draft 7 finds no fault with them.
 */
export function forDraft7(schema: JsonSchema): JsonSchema {
  const dialect = schema["$schema"];
  const isKnown = dialect === undefined || (typeof dialect === "string" && dialect.includes("2020-12"));
  return isKnown ? (adapted(schema, NESTING_MAX) as JsonSchema) : schema;
}

/** Returns the value itself when it contains no tuple. */
function adapted(schema: unknown, levels: number): unknown {
  if (!isObject(schema) || levels === 0) return schema;
  let copy: Record<string, unknown> | undefined;
  for (const [keyword, value] of Object.entries(schema)) {
    const now = mapsOfSchemas.has(keyword)
      ? adaptedEach(value, levels - 1)
      : placesOfSchemas.has(keyword)
        ? Array.isArray(value)
          ? adaptedEach(value, levels - 1)
          : adapted(value, levels - 1)
        : value;
    if (now !== value) (copy ??= { ...schema })[keyword] = now;
  }
  const whole = copy ?? schema;
  return Array.isArray(whole["prefixItems"]) ? tuple(whole, whole["prefixItems"].length) : whole;
}

/** Adapts each schema of a list, or of an object by names. */
function adaptedEach(schemas: unknown, levels: number): unknown {
  if (Array.isArray(schemas)) {
    const now = schemas.map((each) => adapted(each, levels));
    return now.some((each, index) => each !== schemas[index]) ? now : schemas;
  }
  if (!isObject(schemas)) return schemas;
  const now = Object.entries(schemas).map(([name, each]) => [name, adapted(each, levels)] as const);
  return now.some(([name, each]) => each !== schemas[name]) ? Object.fromEntries(now) : schemas;
}

function tuple(schema: Record<string, unknown>, length: number): Record<string, unknown> {
  const { items, ...rest } = schema;
  if (items === false) {
    const { maxItems } = schema;
    return { ...rest, maxItems: typeof maxItems === "number" ? Math.min(maxItems, length) : length };
  }
  // `unevaluatedItems` would skip the items that such keywords evaluate.
  const isAlone = !Object.keys(schema).some((keyword) => evaluating.has(keyword));
  return isObject(items) && isAlone ? { ...rest, unevaluatedItems: items } : schema;
}

const evaluating = new Set(
  "$ref $dynamicRef allOf anyOf oneOf not if contains dependentSchemas unevaluatedItems".split(" "),
);
