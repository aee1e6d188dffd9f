import { isObject, nestsTooDeep, tryParseJson, type JsonSchema } from "../../lib/json.ts";
import type { DescribedSchema, DescribedSchemas, DescribedTool, SchemaRequest, ToolAnnotations } from "../discovery.ts";
import { findUnresolvedReference } from "./schema-merge.ts";

/** Reads a guest's description of its schemas. The guest runs the author's code, so every part is checked. */
export function readDescribed([one, other]: readonly [string, string], request: SchemaRequest): DescribedSchemas {
  const [first, second] = [parseAnswer(one), parseAnswer(other)];
  if (!first || !second) return unavailableSchemas(request, "its answer cannot be read");
  return {
    schemas: request.schemas.map((_, index) => {
      const schema = readSchema(first.schemas[index]);
      return areEqual(schema, readSchema(second.schemas[index])) ? schema : UNSTABLE;
    }),
    tools: request.tools.map((_, index) => {
      const again = readTools(second.tools[index]);
      return readTools(first.tools[index]).map((tool, at) =>
        areEqual(tool, again[at]) ? tool : { id: tool.id, at: tool.at, input: UNSTABLE },
      );
    }),
  };
}

/** True if two answers are equal. Deletes differing defaults, such as `default(() => randomUUID())`. */
function areEqual(value: unknown, again: unknown): boolean {
  if (!isContainer(value) || !isContainer(again)) return value === again;
  const names = Object.keys(value);
  const isSame = Array.isArray(value) === Array.isArray(again) && names.length === Object.keys(again).length;
  return (
    isSame &&
    names.every((name) => {
      const isEqual = Object.hasOwn(again, name) && areEqual(value[name], again[name]);
      return isEqual || (name === "default" && name in again && delete value[name]);
    })
  );
}

function isContainer(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

/** The answer if nothing could be evaluated. */
export function unavailableSchemas({ schemas, tools }: SchemaRequest, fault: string): DescribedSchemas {
  return { schemas: schemas.map(() => ({ fault })), tools: tools.map(() => []), fault };
}

const UNSTABLE: DescribedSchema = {
  fault: "it changes with the time or with random numbers; make it the same at each load",
};

function parseAnswer(text: string): { schemas: unknown[]; tools: unknown[] } | undefined {
  const value = tryParseJson(text);
  if (!isObject(value) || nestsTooDeep(value, text.length)) return undefined;
  const { schemas, tools } = value;
  return Array.isArray(schemas) && Array.isArray(tools) ? { schemas, tools } : undefined;
}

function readSchema(value: unknown): DescribedSchema {
  const { json, fault = "no reason is given" } = isObject(value) ? value : {};
  const unresolved = isObject(json) ? findUnresolvedReference(json) : undefined;
  if (isObject(json) && unresolved === undefined) return { json };
  const reason = unresolved === undefined ? String(fault) : `its reference ${unresolved} does not resolve`;
  return { fault: reason.slice(0, FAULT_UNITS_MAX) };
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
    ...(isObject(annotations) && { annotations: readHints(annotations) }),
    ...(input !== undefined && { input: readSchema(input) }),
    ...(output !== undefined && { output: readSchema(output) }),
  };
  return [tool];
}

/** The behavior hints among annotations. */
export function readHints(annotations: JsonSchema): ToolAnnotations {
  return Object.fromEntries(
    Object.entries(annotations).filter(([name, hint]) => HINTS.has(name) && typeof hint === "boolean"),
  );
}

const HINTS: ReadonlySet<string> = new Set(["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"]);
