import { isObject, jsonText, type JsonSchema } from "../lib/json.ts";
import type { ToolContract } from "./contract.ts";

/** The parts of a tool that its signature needs: the tool as clients see it, or as it was discovered. */
export type Callable = Pick<ToolContract, "name" | "inputSchema"> & { readonly outputSchema?: JsonSchema | null };

/**
 * A tool as a TypeScript-like signature, readable for authors and models. With `width`, a longer signature is broken
 * into one line for each parameter. Long types are cut.
 */
export function signatureOf({ name, inputSchema, outputSchema }: Callable, width = Infinity): string {
  const { properties, required } = inputSchema;
  const room: Room = { units: SIGNATURE_UNITS_MAX };
  const needed = new Set(Array.isArray(required) ? required : []);
  const parameters: string[] = [];
  for (const [name, schema] of Object.entries(isObject(properties) ? properties : {})) {
    if (room.units <= 0) {
      parameters.push(MORE);
      break;
    }
    const type = textOf(schema, 0, room);
    const fallback = isObject(schema) && "default" in schema ? ` = ${literalText(schema["default"], room)}` : "";
    const optional = !needed.has(name) && fallback === "" ? "?" : "";
    parameters.push(`${within(name, room)}${optional}: ${type}${fallback}`);
  }
  const result = outputSchema == null ? "" : `: ${textOf(outputSchema, 0, room)}`;
  const line = `${name}(${parameters.join(", ")})${result}`;
  if (line.length <= width || parameters.length === 0) return line;
  return `${name}(\n${parameters.map((parameter) => `  ${parameter},\n`).join("")})${result}`;
}

/** A schema as a type on one line; a long one is cut. */
export function typeText(schema: unknown): string {
  return textOf(schema, 0, { units: TYPE_UNITS_MAX });
}

/** The space left. A schema of one kilobyte can describe more types than fit in memory. */
interface Room {
  units: number;
}

const SIGNATURE_UNITS_MAX = 64 * 1024;
const TYPE_UNITS_MAX = 2_048;
/** The nesting of lists and alternatives; objects show less. */
const DEPTH_MAX = 64;
const MORE = "…";

function textOf(schema: unknown, depth: number, room: Room): string {
  if (room.units <= 0 || depth > DEPTH_MAX) return MORE;
  if (!isObject(schema)) return within(schema === false ? "never" : "unknown", room);
  if (typeof schema["$ref"] === "string") return within(schema["$ref"].split("/").at(-1)!, room);
  if ("const" in schema) return literalText(schema["const"], room);
  const { enum: values, anyOf, type } = schema;
  if (Array.isArray(values)) return joined(values, " | ", room, (value) => literalText(value, room));
  if (Array.isArray(anyOf)) return joined(anyOf, " | ", room, (one) => textOf(one, depth + 1, room));
  if (!Array.isArray(type)) return textOfType(type, schema, depth, room);
  const types = [...new Set(type)].slice(0, TYPES_MAX);
  return joined(types, " | ", room, (one) => textOfType(one, schema, depth, room));
}

/** The number of types in JSON Schema. */
const TYPES_MAX = 7;

function textOfType(type: unknown, schema: JsonSchema, depth: number, room: Room): string {
  if (type === "array") return arrayText(schema, depth, room);
  if (type === "object") return objectText(schema, depth, room);
  if (type === "string" && schema["format"] === "date-time") return within("Date", room);
  return within(typeof type === "string" ? type : "unknown", room);
}

function arrayText({ prefixItems, items }: JsonSchema, depth: number, room: Room): string {
  const fixed = Array.isArray(prefixItems)
    ? joined(prefixItems, ", ", room, (item) => textOf(item, depth + 1, room))
    : undefined;
  const rest = items === undefined || items === false ? "" : textOf(items, depth + 1, room);
  if (fixed === undefined) return /[ |]/.test(rest) ? `(${rest})[]` : `${rest || "unknown"}[]`;
  return `[${[fixed, ...(rest ? [`...${rest}[]`] : [])].filter(Boolean).join(", ")}]`;
}

function objectText({ properties, required, additionalProperties }: JsonSchema, depth: number, room: Room): string {
  if (depth > 2) return within("{ … }", room);
  const needed = new Set(Array.isArray(required) ? required : []);
  const members = Object.entries(isObject(properties) ? properties : {});
  let parts = joined(members, "; ", room, ([name, schema]) => {
    const mark = needed.has(name) ? "" : "?";
    return `${within(name, room)}${mark}: ${textOf(schema, depth + 1, room)}`;
  });
  if (isObject(additionalProperties)) {
    parts += `${parts && "; "}[key: string]: ${textOf(additionalProperties, depth + 1, room)}`;
  }
  return parts === "" ? "object" : `{ ${parts} }`;
}

/** Joins as many items as there is room for. */
function joined<Item>(items: readonly Item[], separator: string, room: Room, write: (item: Item) => string): string {
  const texts: string[] = [];
  for (const item of items) {
    if (room.units <= 0) {
      texts.push(MORE);
      break;
    }
    room.units -= separator.length;
    texts.push(write(item));
  }
  return texts.join(separator);
}

function literalText(value: unknown, room: Room): string {
  // Cut first: the rest of a long text need not be written.
  const shown = typeof value === "string" ? value.slice(0, Math.max(room.units, 0) + 1) : value;
  return within(isObject(shown) || Array.isArray(shown) ? jsonText(shown) : JSON.stringify(shown), room);
}

function within(text: string, room: Room): string {
  const fits = text.length <= room.units;
  const shown = fits ? text : `${text.slice(0, Math.max(room.units, 0))}${MORE}`;
  room.units -= text.length;
  return shown;
}
