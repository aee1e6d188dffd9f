import type { Json, JsonObject } from "../../lib/json.ts";

/**
 * Tells if a client's answer fits the question. Forms are flat and have few kinds of fields (2026-07-28 `schema.ts`,
 * `PrimitiveSchemaDefinition`), so this is no JSON Schema validator.
 */
export function fits(method: string, params: JsonObject, answer: Json): boolean {
  if (!isObject(answer)) return false;
  switch (method) {
    case "roots/list":
      return Array.isArray(answer["roots"]) && answer["roots"].every((root) => isObject(root) && isText(root["uri"]));
    case "sampling/createMessage":
      return isText(answer["role"]) && typeof answer["content"] === "object" && answer["content"] !== null;
    default:
      return fitsForm(params, answer);
  }
}

function fitsForm(params: JsonObject, { action, content }: JsonObject): boolean {
  if (action === "decline" || action === "cancel") return true;
  if (action !== "accept") return false;
  if (params["mode"] === "url") return true;
  const { properties, required } = params["requestedSchema"] as { properties?: JsonObject; required?: string[] };
  const given = content ?? {};
  if (!isObject(given)) return false;
  if (required?.some((name) => !Object.hasOwn(given, name))) return false;
  return Object.entries(properties ?? {}).every(
    ([name, field]) => !Object.hasOwn(given, name) || fitsField(field as Field, given[name]!),
  );
}

interface Field {
  type?: string;
  enum?: Json[];
  oneOf?: { const: Json }[];
  anyOf?: { const: Json }[];
  items?: Field;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  minItems?: number;
  maxItems?: number;
}

function fitsField(field: Field, value: Json): boolean {
  const choices = field.enum ?? (field.oneOf ?? field.anyOf)?.map((choice) => choice.const);
  if (choices && !choices.includes(value)) return false;
  switch (field.type) {
    case "string":
      return isText(value) && isWithin(Array.from(value).length, field.minLength, field.maxLength);
    case "integer":
      return Number.isInteger(value) && isWithin(value as number, field.minimum, field.maximum);
    case "number":
      return typeof value === "number" && isWithin(value, field.minimum, field.maximum);
    case "boolean":
      return typeof value === "boolean";
    case "array":
      return (
        Array.isArray(value) &&
        isWithin(value.length, field.minItems, field.maxItems) &&
        value.every((element) => fitsField(field.items ?? {}, element))
      );
    default:
      return true;
  }
}

function isWithin(value: number, least = -Infinity, most = Infinity): boolean {
  return value >= least && value <= most;
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}
