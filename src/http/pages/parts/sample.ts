import { isObject, type Json, type JsonObject, type JsonSchema } from "../../../lib/json.ts";

const DEPTH_MAX = 6;
/** In UTF-16 units; a longer sample is of no use to a reader. */
const SAMPLE_UNITS_MAX = 4_000;

/**
 * Makes arguments for a first call that works, valid as far as a look at the schema can tell. Empty when they would be
 * longer than a reader can use, which a schema of a few bytes can ask for.
 */
export function sampleArguments(schema: JsonSchema): JsonObject {
  const [example] = Array.isArray(schema["examples"]) ? (schema["examples"] as Json[]) : [];
  const room = new Room();
  const sample = isObject(example) ? room.take(example) : sampleObject(schema, 0, room);
  return room.isLeft ? sample : {};
}

/** Counts the values and names of a sample; its makers stop when no room is left. */
class Room {
  #units = SAMPLE_UNITS_MAX;

  get isLeft(): boolean {
    return this.#units >= 0;
  }

  take<Value extends Json>(value: Value): Value {
    this.#units -= typeof value === "string" ? value.length + 1 : 1;
    if (typeof value === "object" && value !== null) {
      for (const [key, member] of Object.entries(value)) {
        if (!this.isLeft) break;
        this.#units -= key.length + 1;
        this.take(member);
      }
    }
    return value;
  }
}

function sampleObject(schema: JsonSchema, depth: number, room: Room): JsonObject {
  const { properties, required } = schema;
  const sample: JsonObject = {};
  if (!isObject(properties) || !Array.isArray(required)) return sample;
  for (const name of new Set(required)) {
    if (!room.isLeft) break;
    if (typeof name !== "string" || !Object.hasOwn(properties, name)) continue;
    room.take(name);
    const value = sampleOf(properties[name], depth + 1, room);
    Object.defineProperty(sample, name, { value, enumerable: true, configurable: true, writable: true });
  }
  return sample;
}

function sampleOf(schema: unknown, depth: number, room: Room): Json {
  if (!isObject(schema) || depth > DEPTH_MAX) return room.take(null);
  for (const keyword of ["const", "default"]) if (keyword in schema) return room.take(schema[keyword] as Json);
  for (const keyword of ["examples", "enum"]) {
    const values = schema[keyword];
    if (Array.isArray(values) && values.length > 0) return room.take(values[0] as Json);
  }
  const kinds = schema["anyOf"] ?? schema["oneOf"];
  if (Array.isArray(kinds)) return sampleOf(kinds[0], depth, room);
  const type = Array.isArray(schema["type"]) ? (schema["type"] as unknown[])[0] : schema["type"];
  switch (type) {
    case "string":
      return room.take(sampleText(schema));
    case "integer":
    case "number":
      return room.take(sampleNumber(schema));
    case "boolean":
      return room.take(true);
    case "array":
      return typeof schema["minItems"] === "number" && schema["minItems"] > 0
        ? [sampleOf(schema["items"], depth + 1, room)]
        : room.take([]);
    case "object":
      return sampleObject(schema, depth, room);
    default:
      return room.take(null);
  }
}

const TEXTS: ReadonlyMap<unknown, string> = new Map(
  Object.entries({
    "date-time": "2026-01-31T12:00:00Z",
    date: "2026-01-31",
    time: "12:00:00Z",
    email: "name@example.com",
    uri: "https://example.com/",
    uuid: "00000000-0000-4000-8000-000000000000",
  }),
);

function sampleText(schema: Record<string, unknown>): string {
  const units = Math.min(Number(schema["minLength"] ?? 0), SAMPLE_UNITS_MAX + 1);
  return TEXTS.get(schema["format"]) ?? "hello".padEnd(units, "o");
}

function sampleNumber({ minimum, exclusiveMinimum, maximum }: Record<string, unknown>): number {
  if (typeof minimum === "number") return minimum;
  if (typeof exclusiveMinimum === "number") return exclusiveMinimum + 1;
  return typeof maximum === "number" ? Math.min(1, maximum) : 1;
}
