import type { DiscoveredTool } from "../../discover/discovery.ts";
import { isObject, type JsonSchema } from "../../lib/json.ts";

/** Checking a value fills in the defaults of its schema. These functions give schemas whose defaults are true. */

/**
 * The schema of a tool's arguments without the defaults that only a comment on its function states. Defaults from the
 * configuration stay.
 */
export function argumentsSchema(
  schema: JsonSchema,
  { inputSchema, call }: Pick<DiscoveredTool, "inputSchema" | "call">,
): JsonSchema {
  if (!call.spokenDefaults) return schema;
  const own = structuredClone(schema);
  for (const path of call.spokenDefaults) {
    const spoken = new Set(partsAt(inputSchema, path).map((part) => JSON.stringify(part["default"])));
    for (const part of partsAt(own, path)) {
      if (spoken.has(JSON.stringify(part["default"]))) delete part["default"];
    }
  }
  return own;
}

/** The schema of a result: values that a function did not return are not filled in. */
export function resultSchema(schema: JsonSchema): JsonSchema {
  return JSON.stringify(schema).includes('"default"') ? withoutDefaults(schema) : schema;
}

function partsAt(root: JsonSchema, path: readonly string[]): JsonSchema[] {
  return path.reduce<JsonSchema[]>((parts, step) => parts.flatMap((part) => inside(part, step, root)), [root]);
}

/** The schemas of a property, of each element and value (`*`), or of an element by its index. */
function inside(part: JsonSchema, step: string, root: JsonSchema): JsonSchema[] {
  const target = targetOf(part, root);
  const { properties, patternProperties, additionalProperties, items, prefixItems, anyOf } = target;
  const places = Array.isArray(prefixItems) ? prefixItems : [];
  const own =
    step === "*"
      ? [
          items,
          additionalProperties,
          ...places,
          ...(isObject(patternProperties) ? Object.values(patternProperties) : []),
        ]
      : [isObject(properties) && Object.hasOwn(properties, step) ? properties[step] : undefined, places[Number(step)]];
  const alternatives = Array.isArray(anyOf) ? anyOf.filter(isObject) : [];
  return [...own.filter(isObject), ...alternatives.flatMap((alternative) => inside(alternative, step, root))];
}

/** Discovery refers only to definitions, and to them directly. */
function targetOf(part: JsonSchema, { $defs }: JsonSchema): JsonSchema {
  const name = typeof part["$ref"] === "string" ? part["$ref"].slice("#/$defs/".length) : undefined;
  const target = name !== undefined && isObject($defs) && Object.hasOwn($defs, name) ? $defs[name] : undefined;
  return isObject(target) ? target : part;
}

const ofSchemas = new Set(["anyOf", "prefixItems"]);
const ofNamedSchemas = new Set(["properties", "patternProperties", "$defs"]);
const aSchema = new Set(["items", "additionalProperties"]);

function withoutDefaults(schema: JsonSchema): JsonSchema {
  const kept = Object.entries(schema).filter(([keyword]) => keyword !== "default");
  const parts = kept.map(([keyword, value]): [string, unknown] => {
    if (ofSchemas.has(keyword) && Array.isArray(value)) return [keyword, value.map(without)];
    if (aSchema.has(keyword)) return [keyword, without(value)];
    if (!ofNamedSchemas.has(keyword) || !isObject(value)) return [keyword, value];
    return [keyword, Object.fromEntries(Object.entries(value).map(([name, part]) => [name, without(part)]))];
  });
  return Object.fromEntries(parts);
}

function without(part: unknown): unknown {
  return isObject(part) ? withoutDefaults(part) : part;
}
