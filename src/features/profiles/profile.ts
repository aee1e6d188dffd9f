import type { Contract } from "../../contract/contract.ts";
import type { Cid } from "../../lib/cid.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import type { Problem } from "../../lib/problem.ts";

/**
 * A saved way to reach an upstream, with knowledge about it (seed 000, "Profile System"):
 *
 *   <folder>/<server>/_meta.json      how to start or reach it, and the identity of its contract then
 *   <folder>/<server>/_contract.json  that contract in full, to tell changes exactly
 *   <folder>/<server>/<tool>.json     the knowledge about a tool; a minimal profile has none
 *
 * Files are kept as written: fields that Berth does not know stay.
 */
export interface Profile {
  readonly name: string;
  /** The folder of its files. */
  readonly folder: string;
  readonly origin: "project" | "user" | "bundled";
  readonly meta: ProfileMeta;
  /** By the name under which the profile offers them. */
  readonly tools: ReadonlyMap<string, ProfileTool>;
  readonly contract?: Contract;
  /** Faults with which it is still usable. */
  readonly problems: readonly Problem[];
}

/** `_meta.json`; exactly one of `uri`, `command` and `url` specifies how to reach the server. */
export type ProfileMeta = JsonObject & {
  uri?: string;
  command?: string;
  args?: string[];
  env?: Record<string, string>;
  cwd?: string;
  url?: string;
  headers?: Record<string, string>;
  transport?: "stdio" | "http";
  description?: string;
  /** The contract hash (J5) and the CID of the whole contract that the profile was created for. */
  schema_hash?: Cid;
  contract_cid?: Cid;
  /** ISO 8601. */
  schema_updated?: string;
  /** The reaction to a changed contract; `warn` by default. */
  schema_validation?: SchemaValidation;
};

export type SchemaValidation = "warn" | "error" | "ignore";

/** `<tool>.json` */
export type ProfileTool = JsonObject & {
  /** The server's own name for the tool. */
  tool?: string;
  description?: string;
  /** Name → JSON Schema, with `required: true` added if a call needs the parameter. */
  parameters?: Record<string, JsonObject>;
  /** Arguments of every call that does not override them. */
  arguments?: JsonObject;
  /** Options that the server's tool gets in the context of the call (P6). */
  options?: JsonObject;
  /** The media type of the tool's result. */
  output_format?: string;
  notes?: string;
  examples?: { input: JsonObject; output_sample?: string }[];
  /** Queries of calls that worked. */
  tested_with?: string[];
};

export const META_FILE = "_meta.json";
export const CONTRACT_FILE = "_contract.json";

/** The fault of a name for a folder or a file: it must not be a path, nor one of Berth's own files. */
export function profileNameProblem(name: string, what: "profile" | "tool"): string | undefined {
  if (/^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/.test(name)) return undefined;
  return `"${name}" cannot be the name of a ${what}: use 1 to 128 of A-Z a-z 0-9 _ . - with a letter or digit first`;
}

type Check = (value: unknown) => boolean;
const isText: Check = (value) => typeof value === "string";
const isTexts: Check = (value) => Array.isArray(value) && value.every(isText);
const isTextsByName: Check = (value) => isObject(value) && Object.values(value).every(isText);
const isObjects: Check = (value) => Array.isArray(value) && value.every(isObject);

const metaFields: Record<string, readonly [Check, string]> = {
  uri: [isText, "a string"],
  command: [isText, "a string"],
  args: [isTexts, "a list of strings"],
  env: [isTextsByName, "an object of strings"],
  cwd: [isText, "a string"],
  url: [isText, "a string"],
  headers: [isTextsByName, "an object of strings"],
  transport: [(value) => value === "stdio" || value === "http", `"stdio" or "http"`],
  description: [isText, "a string"],
  schema_hash: [isText, "a string"],
  contract_cid: [isText, "a string"],
  schema_updated: [isText, "a string"],
  schema_validation: [(value) => ["warn", "error", "ignore"].includes(value as string), `"warn", "error" or "ignore"`],
};

const toolFields: Record<string, readonly [Check, string]> = {
  tool: [isText, "a string"],
  description: [isText, "a string"],
  parameters: [(value) => isObject(value) && Object.values(value).every(isObject), "an object of JSON Schemas"],
  arguments: [isObject, "an object"],
  options: [isObject, "an object"],
  output_format: [isText, "a string"],
  notes: [isText, "a string"],
  examples: [isObjects, "a list of objects"],
  tested_with: [isTexts, "a list of strings"],
};

/** Every problem of a `_meta.json`, by JSON pointer. */
export function metaProblems(value: Json, file: string): Problem[] {
  const problems = fieldProblems(value, metaFields, file);
  if (!isObject(value)) return problems;
  const ways = ["uri", "command", "url"].filter((field) => value[field] !== undefined);
  if (ways.length !== 1) {
    const said = ways.length === 0 ? "none of them" : ways.join(" and ");
    const message = `A profile has exactly one of "uri", "command" and "url"; this one has ${said}`;
    problems.push({ code: "no-launcher", message, severity: "error", file });
  }
  return problems;
}

export function toolProblems(value: Json, file: string): Problem[] {
  return fieldProblems(value, toolFields, file);
}

function fieldProblems(value: Json, fields: typeof metaFields, file: string): Problem[] {
  const problem = (message: string, pointer: string): Problem => {
    return { code: "wrong-type", message, severity: "error", file, pointer };
  };
  if (!isObject(value)) return [problem("This must be a JSON object", "")];
  return Object.entries(fields)
    .filter(([name, [isRight]]) => value[name] !== undefined && !isRight(value[name]))
    .map(([name, [, what]]) => problem(`"${name}" must be ${what}`, `/${name}`));
}
