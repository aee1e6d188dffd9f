import type { Contract, ToolContract } from "../../contract/contract.ts";
import { jsonBlockYielding } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import { isObject, type JsonObject, type JsonSchema, type Json } from "../../lib/json.ts";
import { contractHashInTurns, knownParameters } from "../../upstream/calls/contract-hash.ts";
import type { ProfileMeta, ProfileTool } from "./profile.ts";
import type { ProfileFiles } from "./save.ts";

/** The fields for reaching a server. */
type Reach = Pick<ProfileMeta, "uri" | "command" | "args" | "env" | "cwd" | "url" | "headers" | "transport">;

/** The full profile of a server's current contract, for a person or a model to curate. */
export async function draftProfile(reach: Reach, contract: Contract, now: Date): Promise<ProfileFiles> {
  const tools = contract.tools.map((tool) => [fileNameOf(tool.name), draftTool(tool)] as const);
  return {
    meta: { ...reach, ...(await pinned(contract, now)), schema_validation: "warn" },
    tools: Object.fromEntries(tools),
    contract,
  };
}

/**
 * A handwritten profile, pinned to the server's current contract. Rejects with `profile_invalid` if it names tools that
 * the server does not have.
 */
export async function pinProfile({ meta, tools }: ProfileFiles, contract: Contract, now: Date): Promise<ProfileFiles> {
  const names = contract.tools.map(({ name }) => name);
  const unknown = Object.entries(tools)
    .map(([name, { tool = name }]) => tool)
    .filter((name) => !names.includes(name));
  if (unknown.length > 0) {
    const said = unknown.map((name) => `"${name}"`).join(", ");
    const known = names.length === 0 ? "none" : names.join(", ");
    throw new BerthError("profile_invalid", `the server has no tool ${said}; it has ${known}`);
  }
  return { meta: { ...meta, ...(await pinned(contract, now)) }, tools, contract };
}

/** The fields of `_meta.json` that identify the contract that a profile was created for. */
export async function pinned(
  contract: Contract,
  now: Date,
): Promise<Pick<ProfileMeta, "schema_hash" | "contract_cid" | "schema_updated">> {
  return {
    schema_hash: await contractHashInTurns(contract, knownParameters(contract)),
    contract_cid: (await jsonBlockYielding(contract)).cid,
    schema_updated: now.toISOString(),
  };
}

/** Replaces characters that file names cannot contain: `a/b` becomes `a_b`. */
function fileNameOf(tool: string): string {
  return tool
    .replace(/[^A-Za-z0-9_.-]/g, "_")
    .replace(/^[^A-Za-z0-9]/, "t$&")
    .slice(0, 128);
}

function draftTool({ name, description, inputSchema, outputSchema }: ToolContract): ProfileTool {
  return {
    tool: name,
    ...(description !== undefined && { description }),
    parameters: parametersOf(inputSchema),
    ...(outputSchema !== undefined && { output_format: "application/json" }),
  };
}

/** An input schema as separate parameters, with `required: true` for required ones. */
export function parametersOf(schema: JsonSchema): Record<string, JsonObject> {
  const properties = isObject(schema["properties"]) ? schema["properties"] : {};
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  const parameters = Object.entries(properties).map(([name, each]) => {
    const parameter = isObject(each) ? { ...(each as JsonObject) } : {};
    // If a parameter is an object, its own list of required members replaces the flag.
    if (required.includes(name) && !Array.isArray(parameter["required"])) parameter["required"] = true;
    return [name, parameter] as const;
  });
  return Object.fromEntries(parameters);
}

/** The input schema that parameters represent, to compare a handwritten profile. */
export function schemaOf(parameters: Readonly<Record<string, JsonObject>>): JsonSchema {
  const properties = Object.entries(parameters).map(([name, { required, ...schema }]) => {
    return [name, Array.isArray(required) ? { ...schema, required } : schema] as const;
  });
  const required = Object.entries(parameters).filter(([, schema]) => schema["required"] === true);
  return {
    type: "object",
    properties: Object.fromEntries(properties),
    ...(required.length > 0 && { required: required.map(([name]) => name) }),
  };
}

const OWN_FIELDS = new Set(["server", "launcher", "tools", "tested_with", "parameters"]);

/**
 * A whole profile in one JSON object, as a person or a model writes it: how to reach the server is at the top level or
 * in `launcher`, and `tools` has each tool by name. Throws `profile_invalid`.
 */
export function readGivenProfile(value: Json): ProfileFiles {
  if (!isObject(value)) throw new BerthError("profile_invalid", "it must be a JSON object");
  const given: JsonObject = value;
  const { launcher = {}, tools = {}, tested_with: tested = {} } = given;
  for (const [name, part] of Object.entries({ launcher, tools, tested_with: tested })) {
    if (!isObject(part)) throw new BerthError("profile_invalid", `/${name} must be an object`);
  }
  const rest = Object.entries(given).filter(([name]) => !OWN_FIELDS.has(name));
  const meta = { ...(launcher as JsonObject), ...Object.fromEntries(rest) } as ProfileMeta;
  return {
    meta,
    tools: Object.fromEntries(
      Object.entries(tools as JsonObject).map(([name, tool]) => [name, withTested(name, tool, tested as JsonObject)]),
    ),
  };
}

function withTested(name: string, tool: Json, tested: JsonObject): ProfileTool {
  if (!isObject(tool)) throw new BerthError("profile_invalid", `/tools/${name} must be an object`);
  const queries = tested[name];
  return { tool: name, ...(queries !== undefined && { tested_with: queries }), ...tool } as ProfileTool;
}
