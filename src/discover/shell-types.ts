import type { Json, JsonSchema } from "../lib/json.ts";

/**
 * The types of a script's parameters: `string`, `number`, `integer`, `boolean`, literals in quotes or as numbers,
 * several of these joined by `|`, and lists of any with `[]` behind. Undefined for everything else.
 */
export function shellType(text: string): JsonSchema | undefined {
  const type = text.trim();
  const list = /^(.*\S)\s*\[\]$/s.exec(type)?.[1];
  if (list !== undefined && (!list.includes("|") || /^\([^()]*\)$/.test(list))) {
    const items = shellType(list.replace(/^\(([^()]*)\)$/, "$1"));
    return items && { type: "array", items };
  }
  if (["string", "number", "integer", "boolean"].includes(type)) return { type };
  const members = alternatives(type);
  const values = members.map(literal);
  if (values.length > 0 && values.every((value) => value !== undefined)) {
    const types = [...new Set(values.map((value) => typeof value))];
    return { type: types.length === 1 ? types[0] : types, enum: [...new Set(values)] };
  }
  if (members.length < 2) return undefined;
  const schemas = members.map((member) => shellType(member));
  const types = schemas.map((schema) => schema?.["type"]);
  const isPlain = schemas.every((schema) => schema && Object.keys(schema).length === 1 && schema["type"] !== "array");
  return isPlain ? { type: [...new Set(types)] } : undefined;
}

/** A default as written in `[name=value]`, as the parameter's type reads it; undefined when it does not fit. */
export function shellDefault(text: string, schema: JsonSchema): Json | undefined {
  const value = parsed(text);
  const options = schema["enum"] as Json[] | undefined;
  const candidates = [value, text].filter((candidate) => candidate !== undefined);
  if (options) return candidates.find((candidate) => options.includes(candidate));
  const types = [schema["type"]].flat();
  return candidates.find((candidate) => types.some((type) => isOf(candidate, type, schema)));
}

function isOf(value: Json, type: unknown, schema: JsonSchema): boolean {
  if (type === "array") {
    const items = schema["items"] as JsonSchema;
    return Array.isArray(value) && value.every((item) => fits(item, items));
  }
  return type === "integer" ? Number.isInteger(value) : typeof value === type;
}

function fits(value: Json, schema: JsonSchema): boolean {
  if (Array.isArray(schema["enum"])) return schema["enum"].includes(value);
  return [schema["type"]].flat().some((type) => isOf(value, type, schema));
}

/** Split at `|` outside of quotes. */
function alternatives(type: string): string[] {
  const members = type.match(/"(?:[^"\\]|\\.)*"|'[^']*'|[^|"'\s][^|"']*|\|/g) ?? [];
  const isAlternating = members.every((member, index) => (member === "|") === (index % 2 === 1));
  return isAlternating && members.length % 2 === 1 ? members.filter((_, index) => index % 2 === 0) : [];
}

function literal(text: string): string | number | undefined {
  const quoted = /^'([^']*)'$/.exec(text.trim())?.[1];
  const value = quoted ?? parsed(text.trim());
  return typeof value === "string" || typeof value === "number" ? value : undefined;
}

function parsed(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}
