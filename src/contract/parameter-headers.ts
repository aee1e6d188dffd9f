import { isObject, type JsonSchema } from "../lib/json.ts";
import { schemaMapKeywords, schemaKeywords } from "./subschemas.ts";

/** A header name for which clients would refuse the tool, and why. */
interface HeaderFault {
  readonly header: string;
  readonly message: string;
}

/** Checks each `x-mcp-header`, which names a header (2026-07-28, "Custom Headers from Tool Parameters"). */
export function findHeaderFaults(schema: unknown): HeaderFault[] {
  const faults: HeaderFault[] = [];
  const taken = new Set<string>();

  const visit = (node: unknown, place: "root" | "property" | "elsewhere"): void => {
    if (!isObject(node)) return;
    if (Object.hasOwn(node, KEYWORD)) check(node, place);
    for (const [keyword, value] of Object.entries(node)) {
      if (keyword === "properties" && isObject(value)) {
        for (const property of Object.values(value)) visit(property, place === "elsewhere" ? place : "property");
      } else if (schemaMapKeywords.has(keyword) && isObject(value)) {
        for (const inner of Object.values(value)) visit(inner, "elsewhere");
      } else if (schemaKeywords.has(keyword)) {
        for (const inner of Array.isArray(value) ? value : [value]) visit(inner, "elsewhere");
      }
    }
  };
  const check = (node: Record<string, unknown>, place: string): void => {
    const header = node[KEYWORD];
    const fault = findFault(header, node, place, taken);
    if (fault !== undefined) faults.push({ header: String(header), message: fault });
    taken.add(String(header).toLowerCase());
  };
  visit(schema, "root");
  return faults;
}

const KEYWORD = "x-mcp-header";

function findFault(
  header: unknown,
  { type }: Record<string, unknown>,
  place: string,
  taken: ReadonlySet<string>,
): string | undefined {
  if (typeof header !== "string" || !/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(header)) {
    return `the header name ${JSON.stringify(header)} must be one word of letters, digits and -`;
  }
  if (taken.has(header.toLowerCase()))
    return `the header "${header}" is named twice; header names are not case-sensitive`;
  if (place !== "property") {
    return `the header "${header}" belongs to a value inside a list, a union or a recursive type; only arguments and their properties can have one`;
  }
  if (type === "string" || type === "integer" || type === "boolean") return undefined;
  const integer = type === "number" ? "; mark it @integer if it is a whole number" : "";
  return `the header "${header}" can only carry a string, an integer or a boolean${integer}`;
}

/** An argument that clients repeat as a header of the request (2026-07-28 `basic/transports/streamable-http`). */
export interface HeaderMark {
  /** In lower case. */
  readonly header: string;
  readonly path: readonly string[];
}

/** The marks of a tool's input schema. Only those reached solely through `properties` count. */
export function headerMarks(inputSchema: JsonSchema): HeaderMark[] {
  const marks: HeaderMark[] = [];
  const walk = (schema: unknown, path: readonly string[]): void => {
    if (!isObject(schema) || !isObject(schema["properties"])) return;
    for (const [name, property] of Object.entries(schema["properties"])) {
      if (!isObject(property)) continue;
      const mark = property["x-mcp-header"];
      if (typeof mark === "string") marks.push({ header: `mcp-param-${mark.toLowerCase()}`, path: [...path, name] });
      walk(property, [...path, name]);
    }
  };
  walk(inputSchema, []);
  return marks;
}

export type Scalar = string | number | boolean;

/** The arguments that are repeated in headers; undefined for missing and non-scalar ones. */
export function scalarsAt(args: unknown, paths: readonly (readonly string[])[]): (Scalar | undefined)[] {
  return paths.map((path) => {
    const value = path.reduce<unknown>(
      (inner, key) => (isObject(inner) && Object.hasOwn(inner, key) ? inner[key] : undefined),
      args,
    );
    return typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? value : undefined;
  });
}

/** The parameter that the header `Mcp-Name` repeats (2026-07-28 `basic/transports/streamable-http`). */
export const NAME_PARAMETERS: ReadonlyMap<string, string> = new Map([
  ["tools/call", "name"],
  ["prompts/get", "name"],
  ["resources/read", "uri"],
  // SEP-2663, "Routing Headers".
  ["tasks/get", "taskId"],
  ["tasks/update", "taskId"],
  ["tasks/cancel", "taskId"],
]);
