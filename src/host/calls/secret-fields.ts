import { isObject, type Json } from "../../lib/json.ts";
import { HIDDEN } from "../../lib/redactor.ts";

/** Keywords whose schemas, or lists of them, are about the same value. */
const BESIDES = ["allOf", "anyOf", "oneOf", "if", "then", "else", "$ref", "$dynamicRef", "dependentSchemas"] as const;
/** The most schemas that are looked at for one value; what has more is hidden as a whole. */
const SCHEMAS_MAX = 256;

type Schema = Readonly<Record<string, unknown>>;

/** True if a schema may name a value as secret: `"format": "password"`, or `"writeOnly": true`. */
export function namesSecrets(schema: unknown): boolean {
  const text = JSON.stringify(schema) ?? "";
  return text.includes('"password"') || text.includes('"writeOnly"');
}

/** A value without what its schema names as secret, and the texts that were there. */
export function withoutSecretFields(schema: unknown, value: Json): { readonly value: Json; readonly found: string[] } {
  const found: string[] = [];
  const walk = (given: readonly unknown[], value: Json): Json => {
    const schemas = allOf(given, schema);
    if (schemas === undefined || schemas.some(isSecret)) {
      note(value, found);
      return HIDDEN;
    }
    if (Array.isArray(value)) return value.map((item, index) => walk(itemSchemas(schemas, index), item));
    if (!isObject(value)) return value;
    const members = Object.entries(value as Record<string, Json>);
    return Object.fromEntries(members.map(([name, member]) => [name, walk(memberSchemas(schemas, name), member)]));
  };
  return { value: walk([schema], value), found };
}

function isSecret({ format, writeOnly }: Schema): boolean {
  return format === "password" || writeOnly === true;
}

/** The schemas with those that they refer to and consist of; undefined where there are too many. */
function allOf(given: readonly unknown[], root: unknown): readonly Schema[] | undefined {
  const all = new Set<Schema>();
  const waiting = [...given];
  while (waiting.length > 0) {
    const schema = waiting.pop();
    if (!isObject(schema) || all.has(schema)) continue;
    all.add(schema);
    if (all.size > SCHEMAS_MAX) return undefined;
    for (const keyword of BESIDES) {
      const besides = schema[keyword];
      if (typeof besides === "string") waiting.push(referred(root, besides));
      else if (keyword === "dependentSchemas" && isObject(besides)) waiting.push(...Object.values(besides));
      else if (Array.isArray(besides)) waiting.push(...(besides as unknown[]));
      else if (besides !== undefined) waiting.push(besides);
    }
  }
  return [...all];
}

/** The schema at a JSON pointer of this schema; any other reference leads nowhere. */
function referred(root: unknown, reference: string): unknown {
  if (!reference.startsWith("#")) return undefined;
  let at = root;
  for (const step of reference.slice(1).split("/").slice(1)) {
    const name = decoded(step).replaceAll("~1", "/").replaceAll("~0", "~");
    if (Array.isArray(at)) at = (at as unknown[])[Number(name)];
    else at = isObject(at) && Object.hasOwn(at, name) ? at[name] : undefined;
  }
  return at;
}

function decoded(step: string): string {
  try {
    return decodeURIComponent(step);
  } catch {
    return step;
  }
}

function itemSchemas(schemas: readonly Schema[], index: number): unknown[] {
  return schemas.flatMap(({ prefixItems, items, contains, additionalItems, unevaluatedItems }) => {
    const first: unknown[] = Array.isArray(prefixItems) ? prefixItems : Array.isArray(items) ? items : [];
    const rest = Array.isArray(items) ? additionalItems : items;
    return [index < first.length ? first[index] : rest, contains, unevaluatedItems];
  });
}

/** Patterns of names are not tried, as they may take for ever: what one may be about counts. */
function memberSchemas(schemas: readonly Schema[], name: string): unknown[] {
  return schemas.flatMap(({ properties, patternProperties, additionalProperties, unevaluatedProperties }) => {
    const own = isObject(properties) && Object.hasOwn(properties, name) ? [properties[name]] : [];
    const byPattern = isObject(patternProperties) ? Object.values(patternProperties) : [];
    return [...own, ...byPattern, ...(own.length > 0 ? [] : [additionalProperties, unevaluatedProperties])];
  });
}

function note(value: Json, found: string[]): void {
  if (typeof value === "string" || typeof value === "number") found.push(String(value));
  else if (typeof value === "object" && value !== null) for (const each of Object.values(value)) note(each, found);
}
