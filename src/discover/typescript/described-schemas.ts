import { isObject, nestsTooDeep, tryParseJson, type JsonSchema } from "../../lib/json.ts";
import type { DescribedSchema, DescribedSchemas, DescribedTool, SchemaRequest, ToolAnnotations } from "../discovery.ts";
import { findStrayReference } from "./schema-merge.ts";

/** Reads a guest's description of its schemas. The guest runs the author's code, so every part is checked. */
export function readDescribed([one, other]: readonly [string, string], request: SchemaRequest): DescribedSchemas {
  const [first, second] = [parseAnswer(one), parseAnswer(other)];
  if (!first || !second) return undescribed(request, "its answer cannot be read");
  return {
    schemas: request.schemas.map((_, index) => {
      const schema = readSchema(first.schemas[index]);
      return agree(schema, readSchema(second.schemas[index])) ? schema : UNSTABLE;
    }),
    tools: request.tools.map((_, index) => {
      const again = readTools(second.tools[index]);
      return readTools(first.tools[index]).map((tool, at) =>
        agree(tool, again[at]) ? tool : { id: tool.id, at: tool.at, input: UNSTABLE },
      );
    }),
  };
}

/**
 * True if two answers are the same. Deletes defaults that differ, such as those of `default(() => randomUUID())`: a call
 * generates its own.
 */
function agree(value: unknown, again: unknown): boolean {
  if (!isHolder(value) || !isHolder(again)) return value === again;
  const names = Object.keys(value);
  const isSame = Array.isArray(value) === Array.isArray(again) && names.length === Object.keys(again).length;
  return (
    isSame &&
    names.every((name) => {
      const isEqual = Object.hasOwn(again, name) && agree(value[name], again[name]);
      return isEqual || (name === "default" && name in again && delete value[name]);
    })
  );
}

function isHolder(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

/** The answer if nothing could be evaluated. */
export function undescribed({ schemas, tools }: SchemaRequest, fault: string): DescribedSchemas {
  return { schemas: schemas.map(() => ({ fault })), tools: tools.map(() => []), fault };
}

const UNSTABLE: DescribedSchema = {
  fault: "it is another one at another time or with other random numbers; make it the same whenever it is loaded",
};

function parseAnswer(text: string): { schemas: unknown[]; tools: unknown[] } | undefined {
  const value = tryParseJson(text);
  if (!isObject(value) || nestsTooDeep(value, text.length)) return undefined;
  const { schemas, tools } = value;
  return Array.isArray(schemas) && Array.isArray(tools) ? { schemas, tools } : undefined;
}

function readSchema(value: unknown): DescribedSchema {
  const { json, fault = "no reason is given" } = isObject(value) ? value : {};
  const stray = isObject(json) ? findStrayReference(json) : undefined;
  if (isObject(json) && stray === undefined) return { json };
  const why = stray === undefined ? String(fault) : `its reference ${stray} leads nowhere in it`;
  return { fault: why.slice(0, FAULT_UNITS_MAX) };
}

/** The longest reason why a schema cannot be read, in UTF-16 code units. */
const FAULT_UNITS_MAX = 500;

function readTools(list: unknown): DescribedTool[] {
  return (Array.isArray(list) ? list : []).flatMap((tool) => (isObject(tool) ? readTool(tool) : []));
}

function readTool({ id, at, name, title, description, annotations, input, output }: JsonSchema): DescribedTool[] {
  if (typeof id !== "number" || !Array.isArray(at) || !at.every((step) => typeof step === "string")) return [];
  const tool = {
    id,
    at,
    ...(typeof name === "string" && { name }),
    ...(typeof title === "string" && { title }),
    ...(typeof description === "string" && { description }),
    ...(isObject(annotations) && { annotations: hintsIn(annotations) }),
    ...(input !== undefined && { input: readSchema(input) }),
    ...(output !== undefined && { output: readSchema(output) }),
  };
  return [tool];
}

/** The hints among annotations. */
export function hintsIn(annotations: JsonSchema): ToolAnnotations {
  return Object.fromEntries(
    Object.entries(annotations).filter(([name, hint]) => HINTS.has(name) && typeof hint === "boolean"),
  );
}

const HINTS: ReadonlySet<string> = new Set(["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"]);
