import type { ToolAnnotations } from "../contract/contract.ts";
import { findHeaderFaults } from "../contract/parameter-headers.ts";
import { isObject, type Json, type JsonObject, type JsonSchema } from "../lib/json.ts";
import { addProblem, inside, readFields, readIfValid, type ConfigPlace } from "./config-place.ts";

/** Overrides what a tool's function declares; also the form in which a transform declares a tool. */
export interface ConfiguredTool {
  /** The function that runs: a tool of the definition. Default: the one of the same name. */
  readonly function?: string;
  /** Fixed arguments, which clients neither see nor send. */
  readonly arguments?: JsonObject;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema?: JsonSchema;
  readonly outputSchema?: JsonSchema;
  readonly annotations?: ToolAnnotations;
}

/** The names that every revision allows for a tool or a prompt. */
export const OFFERED_NAME = /^[A-Za-z0-9_./-]{1,128}$/;

/** The largest JSON Schema that is compiled, in UTF-16 code units of its JSON. */
export const SCHEMA_UNITS_MAX = 64 * 1024;

export interface ToolReading {
  /** Returns why a schema cannot be used to check values; if absent, schemas are not checked. */
  readonly faultOf?: FindSchemaFault;
}

export type FindSchemaFault = (schema: JsonSchema) => string | undefined;

/** Finds the faults of all schemas of tools in advance. `check` checks one schema, and may take its time. */
export async function collectSchemaFaults(
  tools: Iterable<Json>,
  check: (schema: JsonSchema) => Promise<string | undefined>,
): Promise<FindSchemaFault> {
  const faults = new Map<JsonSchema, string | undefined>();
  for (const tool of tools) {
    if (!isObject(tool)) continue;
    for (const schema of [tool["inputSchema"], tool["outputSchema"]]) {
      if (isObject(schema) && explainUnfit(schema) === undefined) faults.set(schema, await check(schema));
    }
  }
  return (schema) => faults.get(schema);
}

/** Undefined if it is invalid; `place` then has the problems. */
export function readTool(
  name: string,
  raw: Json,
  place: ConfigPlace,
  { faultOf }: ToolReading,
): ConfiguredTool | undefined {
  return readIfValid(place, () => {
    checkName(name, "tool", place);
    const tool = readFields(raw, fields, "A tool", place);
    const input = inside(place, "inputSchema");
    if (tool.inputSchema) {
      if (tool.inputSchema["type"] !== "object") addProblem(input, "bad-schema", 'It must have "type": "object"');
      for (const { message } of findHeaderFaults(tool.inputSchema)) addProblem(input, "bad-header", message);
      checkSchema(tool.inputSchema, input, faultOf);
    }
    if (tool.outputSchema) checkSchema(tool.outputSchema, inside(place, "outputSchema"), faultOf);
    const annotations =
      tool.annotations &&
      readFields(tool.annotations, hints, "The annotations of a tool", inside(place, "annotations"));
    return { ...tool, ...(annotations && { annotations }) };
  });
}

export function checkName(name: string, kind: "tool" | "prompt", place: ConfigPlace): void {
  if (OFFERED_NAME.test(name)) return;
  const quotedName = JSON.stringify(name.slice(0, 150));
  addProblem(place, "bad-name", `${quotedName} cannot be a ${kind}'s name: use 1 to 128 of A-Z a-z 0-9 _ . / -`);
}

const fields = {
  function: "text",
  arguments: "object",
  title: "text",
  description: "text",
  inputSchema: "object",
  outputSchema: "object",
  annotations: "object",
} as const;

const hints = {
  readOnlyHint: "boolean",
  destructiveHint: "boolean",
  idempotentHint: "boolean",
  openWorldHint: "boolean",
} as const;

function checkSchema(schema: JsonObject, place: ConfigPlace, faultOf: FindSchemaFault | undefined): void {
  if (!faultOf) return;
  const unfit = explainUnfit(schema);
  if (unfit) return addProblem(place, unfit.code, unfit.message);
  const fault = faultOf(schema);
  if (fault !== undefined) addProblem(place, "bad-schema", `Not a JSON Schema 2020-12 that can be checked: ${fault}`);
}

/** The reason why a schema is not even checked. */
function explainUnfit(schema: JsonSchema): { readonly code: string; readonly message: string } | undefined {
  const text = JSON.stringify(schema);
  if (text.length > SCHEMA_UNITS_MAX) {
    const message = `A schema may have ${SCHEMA_UNITS_MAX} characters; this one has ${text.length}`;
    return { code: "too-large", message };
  }
  if (!text.includes('"$id":')) return undefined;
  // Compiled schemas share one namespace: one could replace that of another server.
  return { code: "bad-schema", message: "A schema here cannot have an $id; refer to its parts by #/$defs/…" };
}
