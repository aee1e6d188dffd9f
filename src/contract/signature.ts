import { isObject, type JsonSchema } from "../json.ts";
import type { ToolContract } from "./contract.ts";

/** What a signature is made of: a tool as clients see it, or as it was discovered. */
export type Callable = Pick<ToolContract, "name" | "inputSchema"> & { readonly outputSchema?: JsonSchema | null };

/**
 * A tool as a TypeScript-like signature: what an author recognises, and what a model reads well. With `width` it is
 * broken into a line for each parameter where it would be longer.
 */
export function signatureOf({ name, inputSchema, outputSchema }: Callable, width = Infinity): string {
  const { properties = {}, required = [] } = inputSchema as {
    properties?: Record<string, JsonSchema>;
    required?: string[];
  };
  const needed = new Set(required);
  const parameters = Object.entries(properties).map(([name, schema]) => {
    const fallback = isObject(schema) && "default" in schema ? ` = ${JSON.stringify(schema["default"])}` : "";
    const optional = !needed.has(name) && fallback === "" ? "?" : "";
    return `${name}${optional}: ${typeText(schema)}${fallback}`;
  });
  const result = outputSchema == null ? "" : `: ${typeText(outputSchema)}`;
  const line = `${name}(${parameters.join(", ")})${result}`;
  if (line.length <= width || parameters.length === 0) return line;
  return `${name}(\n${parameters.map((parameter) => `  ${parameter},\n`).join("")})${result}`;
}

/** A schema as a type, short enough for a line. */
export function typeText(schema: unknown, depth = 0): string {
  if (!isObject(schema)) return schema === false ? "never" : "unknown";
  if (typeof schema["$ref"] === "string") return schema["$ref"].split("/").at(-1)!;
  if ("const" in schema) return JSON.stringify(schema["const"]);
  const { enum: values, anyOf } = schema;
  if (Array.isArray(values)) return values.map((value) => JSON.stringify(value)).join(" | ");
  if (Array.isArray(anyOf)) return anyOf.map((one) => typeText(one, depth + 1)).join(" | ");
  const { type } = schema;
  if (Array.isArray(type)) {
    // Each once: what is inside is written for each of them, and for each of those inside of it again.
    return Array.from(new Set(type), (one) => typeText({ ...schema, type: one }, depth)).join(" | ");
  }
  if (type === "array") return arrayText(schema, depth);
  if (type === "object") return objectText(schema, depth);
  if (type === "string" && schema["format"] === "date-time") return "Date";
  return typeof type === "string" ? type : "unknown";
}

function arrayText({ prefixItems, items }: JsonSchema, depth: number): string {
  const rest = items === undefined || items === false ? "" : typeText(items, depth + 1);
  if (!Array.isArray(prefixItems)) return /[ |]/.test(rest) ? `(${rest})[]` : `${rest || "unknown"}[]`;
  const fixed = prefixItems.map((item) => typeText(item, depth + 1));
  return `[${[...fixed, ...(rest ? [`...${rest}[]`] : [])].join(", ")}]`;
}

function objectText(schema: JsonSchema, depth: number): string {
  const {
    properties = {},
    required = [],
    additionalProperties,
  } = schema as {
    properties?: Record<string, unknown>;
    required?: string[];
    additionalProperties?: unknown;
  };
  if (depth > 2) return "{ … }";
  const needed = new Set(required);
  let parts = "";
  for (const name of Object.keys(properties)) {
    const mark = needed.has(name) ? "" : "?";
    parts += `${parts && "; "}${name}${mark}: ${typeText(properties[name], depth + 1)}`;
  }
  if (isObject(additionalProperties)) {
    parts += `${parts && "; "}[key: string]: ${typeText(additionalProperties, depth + 1)}`;
  }
  return parts === "" ? "object" : `{ ${parts} }`;
}
