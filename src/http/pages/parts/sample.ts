import { isObject, type Json, type JsonObject, type JsonSchema } from "../../../json.ts";

const DEPTH_MAX = 6;

/** Arguments that a tool's schema allows as far as one can tell by looking: for a first call that works. */
export function sampleArguments(schema: JsonSchema): JsonObject {
  const [example] = Array.isArray(schema["examples"]) ? (schema["examples"] as Json[]) : [];
  if (isObject(example)) return example;
  return sampleObject(schema, 0);
}

function sampleObject(schema: JsonSchema, depth: number): JsonObject {
  const { properties, required } = schema;
  if (!isObject(properties) || !Array.isArray(required)) return {};
  const names = required.filter((name): name is string => typeof name === "string" && Object.hasOwn(properties, name));
  return Object.fromEntries(names.map((name) => [name, sampleOf(properties[name], depth + 1)]));
}

function sampleOf(schema: unknown, depth: number): Json {
  if (!isObject(schema) || depth > DEPTH_MAX) return null;
  for (const keyword of ["const", "default"]) if (keyword in schema) return schema[keyword] as Json;
  for (const keyword of ["examples", "enum"]) {
    const values = schema[keyword];
    if (Array.isArray(values) && values.length > 0) return values[0] as Json;
  }
  const kinds = schema["anyOf"] ?? schema["oneOf"];
  if (Array.isArray(kinds)) return sampleOf(kinds[0], depth);
  const type = Array.isArray(schema["type"]) ? (schema["type"] as unknown[])[0] : schema["type"];
  switch (type) {
    case "string":
      return sampleText(schema);
    case "integer":
    case "number":
      return sampleNumber(schema);
    case "boolean":
      return true;
    case "array":
      return typeof schema["minItems"] === "number" && schema["minItems"] > 0
        ? [sampleOf(schema["items"], depth + 1)]
        : [];
    case "object":
      return sampleObject(schema, depth);
    default:
      return null;
  }
}

const TEXTS: Readonly<Record<string, string>> = {
  "date-time": "2026-01-31T12:00:00Z",
  date: "2026-01-31",
  time: "12:00:00Z",
  email: "name@example.com",
  uri: "https://example.com/",
  uuid: "00000000-0000-4000-8000-000000000000",
};

function sampleText(schema: Record<string, unknown>): string {
  return TEXTS[String(schema["format"])] ?? "hello".padEnd(Number(schema["minLength"] ?? 0), "o");
}

function sampleNumber({ minimum, exclusiveMinimum, maximum }: Record<string, unknown>): number {
  if (typeof minimum === "number") return minimum;
  if (typeof exclusiveMinimum === "number") return exclusiveMinimum + 1;
  return typeof maximum === "number" ? Math.min(1, maximum) : 1;
}
