import type { JsonSchema } from "../lib/json.ts";

/** True if a text can stand for a value of this schema: it is then turned into a number or a boolean as needed. */
export function isTextual(schema: JsonSchema, orList: boolean): boolean {
  const alternatives = schema["anyOf"] as JsonSchema[] | undefined;
  if (alternatives) return alternatives.every((alternative) => isTextual(alternative, orList));
  const values = (schema["enum"] ?? ("const" in schema ? [schema["const"]] : undefined)) as unknown[] | undefined;
  if (values) return values.every((value) => typeof value !== "object" || value === null);
  const types = [schema["type"] ?? []].flat() as string[];
  if (orList && types.length === 1 && types[0] === "array") {
    return isTextual((schema["items"] ?? {}) as JsonSchema, false);
  }
  return (
    types.every((type) => ["string", "number", "integer", "boolean", "null"].includes(type)) && !("$ref" in schema)
  );
}
