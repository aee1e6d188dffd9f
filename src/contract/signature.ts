import { isObject, jsonText, type JsonSchema } from "../lib/json.ts";
import type { ToolContract } from "./contract.ts";

/** The parts of a tool that its signature needs: the tool as clients see it, or as it was discovered. */
export type Callable = Pick<ToolContract, "name" | "inputSchema"> & { readonly outputSchema?: JsonSchema | null };

/** Renders a tool as a TypeScript-like signature, with one line per parameter if it is longer than `width`. */
export function renderSignature({ name, inputSchema, outputSchema }: Callable, width = Infinity): string {
  const { properties, required } = inputSchema;
  const budget: Budget = { units: SIGNATURE_UNITS_MAX };
  const requiredNames = new Set(Array.isArray(required) ? required : []);
  const parameters: string[] = [];
  for (const [name, schema] of Object.entries(isObject(properties) ? properties : {})) {
    if (budget.units <= 0) {
      parameters.push(MORE);
      break;
    }
    const type = renderType(schema, 0, budget);
    const fallback = isObject(schema) && "default" in schema ? ` = ${renderLiteral(schema["default"], budget)}` : "";
    const optional = !requiredNames.has(name) && fallback === "" ? "?" : "";
    parameters.push(`${fit(name, budget)}${optional}: ${type}${fallback}`);
  }
  const result = outputSchema == null ? "" : `: ${renderType(outputSchema, 0, budget)}`;
  const line = `${name}(${parameters.join(", ")})${result}`;
  if (line.length <= width || parameters.length === 0) return line;
  return `${name}(\n${parameters.map((parameter) => `  ${parameter},\n`).join("")})${result}`;
}

/** A schema as a type on one line, shortened if it is long. */
export function typeText(schema: unknown): string {
  return renderType(schema, 0, { units: TYPE_UNITS_MAX });
}

/** The remaining length. A schema of one kilobyte can describe more types than fit in memory. */
interface Budget {
  units: number;
}

const SIGNATURE_UNITS_MAX = 64 * 1024;
const TYPE_UNITS_MAX = 2_048;
/** The maximum nesting of lists and alternatives; objects are shortened earlier. */
const DEPTH_MAX = 64;
const MORE = "…";

function renderType(schema: unknown, depth: number, budget: Budget): string {
  if (budget.units <= 0 || depth > DEPTH_MAX) return MORE;
  if (!isObject(schema)) return fit(schema === false ? "never" : "unknown", budget);
  if (typeof schema["$ref"] === "string") return fit(schema["$ref"].split("/").at(-1)!, budget);
  if ("const" in schema) return renderLiteral(schema["const"], budget);
  const { enum: values, anyOf, type } = schema;
  if (Array.isArray(values)) return joinWithin(values, " | ", budget, (value) => renderLiteral(value, budget));
  if (Array.isArray(anyOf)) return joinWithin(anyOf, " | ", budget, (one) => renderType(one, depth + 1, budget));
  if (!Array.isArray(type)) return renderNamedType(type, schema, depth, budget);
  const types = [...new Set(type)].slice(0, TYPES_MAX);
  return joinWithin(types, " | ", budget, (one) => renderNamedType(one, schema, depth, budget));
}

/** The number of types in JSON Schema. */
const TYPES_MAX = 7;

function renderNamedType(type: unknown, schema: JsonSchema, depth: number, budget: Budget): string {
  if (type === "array") return renderArray(schema, depth, budget);
  if (type === "object") return renderObject(schema, depth, budget);
  if (type === "string" && schema["format"] === "date-time") return fit("Date", budget);
  return fit(typeof type === "string" ? type : "unknown", budget);
}

function renderArray({ prefixItems, items }: JsonSchema, depth: number, budget: Budget): string {
  const fixed = Array.isArray(prefixItems)
    ? joinWithin(prefixItems, ", ", budget, (item) => renderType(item, depth + 1, budget))
    : undefined;
  const rest = items === undefined || items === false ? "" : renderType(items, depth + 1, budget);
  if (fixed === undefined) return /[ |]/.test(rest) ? `(${rest})[]` : `${rest || "unknown"}[]`;
  return `[${[fixed, ...(rest ? [`...${rest}[]`] : [])].filter(Boolean).join(", ")}]`;
}

function renderObject(
  { properties, required, additionalProperties }: JsonSchema,
  depth: number,
  budget: Budget,
): string {
  if (depth > 2) return fit("{ … }", budget);
  const requiredNames = new Set(Array.isArray(required) ? required : []);
  const members = Object.entries(isObject(properties) ? properties : {});
  let parts = joinWithin(members, "; ", budget, ([name, schema]) => {
    const mark = requiredNames.has(name) ? "" : "?";
    return `${fit(name, budget)}${mark}: ${renderType(schema, depth + 1, budget)}`;
  });
  if (isObject(additionalProperties)) {
    parts += `${parts && "; "}[key: string]: ${renderType(additionalProperties, depth + 1, budget)}`;
  }
  return parts === "" ? "object" : `{ ${parts} }`;
}

/** Joins as many items as fit. */
function joinWithin<Item>(
  items: readonly Item[],
  separator: string,
  budget: Budget,
  render: (item: Item) => string,
): string {
  const texts: string[] = [];
  for (const item of items) {
    if (budget.units <= 0) {
      texts.push(MORE);
      break;
    }
    budget.units -= separator.length;
    texts.push(render(item));
  }
  return texts.join(separator);
}

function renderLiteral(value: unknown, budget: Budget): string {
  // Shortened first, so that the rest of a long text is not serialized.
  const shortened = typeof value === "string" ? value.slice(0, Math.max(budget.units, 0) + 1) : value;
  return fit(isObject(shortened) || Array.isArray(shortened) ? jsonText(shortened) : JSON.stringify(shortened), budget);
}

function fit(text: string, budget: Budget): string {
  const fits = text.length <= budget.units;
  const shortened = fits ? text : `${text.slice(0, Math.max(budget.units, 0))}${MORE}`;
  budget.units -= text.length;
  return shortened;
}
