import { isObject, nestsTooDeep, tryParseJson, type JsonSchema } from "../lib/json.ts";
import type { DescribedSchema, DescribedSchemas, DescribedTool, SchemaRequest, ToolAnnotations } from "./discovery.ts";
import { strayReference } from "./schema-merge.ts";

/** Reads a guest's description of its schemas. The guest runs the author's code, so every part is checked. */
export function readDescribed([one, other]: readonly [string, string], request: SchemaRequest): DescribedSchemas {
  const [first, second] = [read(one), read(other)];
  if (!first || !second) return undescribed(request, "its answer cannot be read");
  const stable = <T>(value: T, again: unknown, unstable: T): T => {
    const both = withoutOtherDefaults(value, again);
    return JSON.stringify(both.value) === JSON.stringify(both.again) ? (both.value as T) : unstable;
  };
  return {
    schemas: request.schemas.map((_, index) =>
      stable(schemaIn(first.schemas[index]), schemaIn(second.schemas[index]), UNSTABLE),
    ),
    tools: request.tools.map((_, index) => {
      const again = toolsIn(second.tools[index]);
      return toolsIn(first.tools[index]).map((tool, at) =>
        stable(tool, again[at], { id: tool.id, at: tool.at, input: UNSTABLE }),
      );
    }),
  };
}

/** Two answers without the defaults that differ, such as those of `default(() => randomUUID())`: a call makes its own. */
function withoutOtherDefaults(value: unknown, again: unknown): { readonly value: unknown; readonly again: unknown } {
  if (Array.isArray(value) && Array.isArray(again)) {
    const parts = value.map((part, index) => withoutOtherDefaults(part, again[index]));
    const rest = again.slice(value.length) as unknown[];
    return { value: parts.map((part) => part.value), again: [...parts.map((part) => part.again), ...rest] };
  }
  if (!isObject(value) || !isObject(again)) return { value, again };
  const isOther = (key: string): boolean =>
    key === "default" && key in value && key in again && JSON.stringify(value[key]) !== JSON.stringify(again[key]);
  const names = Object.keys(value).filter((key) => !isOther(key));
  const parts = names.map((key) => [key, withoutOtherDefaults(value[key], again[key])] as const);
  const others = Object.entries(again).filter(([key]) => !(key in value));
  return {
    value: Object.fromEntries(parts.map(([key, part]) => [key, part.value])),
    again: Object.fromEntries([...parts.map(([key, part]) => [key, part.again]), ...others]),
  };
}

/** The same where nothing could be evaluated. */
export function undescribed({ schemas, tools }: SchemaRequest, fault: string): DescribedSchemas {
  return { schemas: schemas.map(() => ({ fault })), tools: tools.map(() => []), fault };
}

const UNSTABLE: DescribedSchema = {
  fault: "it is another one at another time or with other random numbers; make it the same whenever it is loaded",
};

function read(text: string): { schemas: unknown[]; tools: unknown[] } | undefined {
  const value = tryParseJson(text);
  const isSound = isObject(value) && !nestsTooDeep(value, text.length);
  return isSound && Array.isArray(value["schemas"]) && Array.isArray(value["tools"])
    ? { schemas: value["schemas"], tools: value["tools"] }
    : undefined;
}

function schemaIn(value: unknown): DescribedSchema {
  const { json, fault } = isObject(value) ? value : {};
  const stray = isObject(json) ? strayReference(json) : undefined;
  if (stray !== undefined) return { fault: `its reference ${stray.slice(0, FAULT_UNITS_MAX)} leads nowhere in it` };
  return isObject(json)
    ? { json }
    : { fault: typeof fault === "string" ? fault.slice(0, FAULT_UNITS_MAX) : "no reason is given" };
}

/** The longest reason why a schema cannot be read, in UTF-16 units. */
const FAULT_UNITS_MAX = 500;

function toolsIn(list: unknown): DescribedTool[] {
  return (Array.isArray(list) ? list : []).flatMap((tool) => (isObject(tool) ? toolIn(tool) : []));
}

function toolIn({ id, at, name, title, description, annotations, input, output }: JsonSchema): DescribedTool[] {
  if (typeof id !== "number" || !Array.isArray(at) || !at.every((step) => typeof step === "string")) return [];
  const tool = {
    id,
    at,
    ...(typeof name === "string" && { name }),
    ...(typeof title === "string" && { title }),
    ...(typeof description === "string" && { description }),
    ...(isObject(annotations) && { annotations: hintsIn(annotations) }),
    ...(input !== undefined && { input: schemaIn(input) }),
    ...(output !== undefined && { output: schemaIn(output) }),
  };
  return [tool];
}

/** The hints about a tool, without what else an object of annotations may have. */
export function hintsIn(annotations: JsonSchema): ToolAnnotations {
  return Object.fromEntries(
    Object.entries(annotations).filter(([name, hint]) => HINTS.has(name) && typeof hint === "boolean"),
  );
}

const HINTS: ReadonlySet<string> = new Set(["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"]);
