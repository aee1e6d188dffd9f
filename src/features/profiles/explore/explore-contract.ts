import type { Contract, ToolContract } from "../../../contract/contract.ts";
import type { JsonSchema } from "../../../lib/json.ts";

const uri: JsonSchema = {
  type: "string",
  minLength: 1,
  description:
    "How to reach the server: mcp+npx://package@version, mcp+uvx://package/command, mcp+node://./server.js, " +
    "mcp+python://./server.py (each with ?arg=…&env.NAME=…), mcp+https://host/path, or @profile.",
};
const profileTool: JsonSchema = {
  type: "object",
  properties: {
    tool: { type: "string", description: "The server's own name for the tool, if it differs." },
    description: { type: "string" },
    parameters: {
      type: "object",
      additionalProperties: { type: "object" },
      description: "Each parameter's JSON Schema, with required: true beside it where a call needs it.",
    },
    arguments: { type: "object", description: "Arguments that every call gets unless it overrides them." },
    output_format: { type: "string", description: "Media type that the tool returns, as you observed it." },
    notes: { type: "string", description: "What you learned about how the tool behaves." },
    examples: {
      type: "array",
      items: {
        type: "object",
        properties: { input: { type: "object" }, output_sample: { type: "string" } },
        required: ["input"],
      },
      description: "Inputs that worked. The first is tried again when the profile is saved or updated.",
    },
    tested_with: { type: "array", items: { type: "string" }, description: "Queries that worked: gene=BRAF&page=2" },
  },
};
const profile: JsonSchema = {
  type: "object",
  properties: {
    uri,
    description: { type: "string" },
    schema_validation: { enum: ["warn", "error", "ignore"], description: "What happens once the server has changed." },
    tools: { type: "object", additionalProperties: profileTool, description: "Tools by the name that they get here." },
  },
  required: ["uri"],
  description: "The profile from draft_profile, with what you learned.",
};

const STARTS = { readOnlyHint: false, destructiveHint: false, idempotentHint: true, openWorldHint: true };

export const exploreTool: ToolContract = {
  name: "explore",
  title: "Explore a server",
  description:
    "Starts or reaches an MCP server and returns all that it offers: instructions, tools with their schemas, resources, prompts. " +
    "The first start installs the server and may take minutes.",
  inputSchema: objectOf({ uri }, ["uri"]),
  annotations: STARTS,
};

export const callTool: ToolContract = {
  name: "call",
  title: "Call a tool of a server",
  description:
    "Calls one tool of an MCP server and returns its result unchanged. The tool may do anything that it can.",
  inputSchema: objectOf(
    {
      uri,
      tool: { type: "string", minLength: 1, description: "The name of the tool, as explore returns it." },
      arguments: { type: "object", description: "What the tool's inputSchema asks for.", default: {} },
    },
    ["uri", "tool"],
  ),
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
};

export const draftProfileTool: ToolContract = {
  name: "draft_profile",
  title: "Draft a profile",
  description:
    "Returns a first version of a profile: each tool's parameters, and your successful calls as examples. " +
    "Add output_format and notes, leave out what is not useful, then call save_profile.",
  inputSchema: objectOf(
    {
      uri,
      tools: { type: "array", items: { type: "string" }, description: "Only these tools; all of them by default." },
    },
    ["uri"],
  ),
  annotations: STARTS,
};

export const saveProfileTool: ToolContract = {
  name: "save_profile",
  title: "Save a profile",
  description:
    "Checks a profile against its server, tries each tool's first example, and saves it as @name for this user. " +
    "Nothing is saved when something is wrong.",
  inputSchema: objectOf(
    {
      name: {
        type: "string",
        pattern: "^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$",
        description: "The profile becomes @name.",
      },
      profile,
      replace: { type: "boolean", default: false, description: "Replace a profile of that name." },
      test: { type: "boolean", default: true, description: "Whether to try the examples first." },
    },
    ["name", "profile"],
  ),
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
};

export const listProfilesTool: ToolContract = {
  name: "list_profiles",
  title: "List profiles",
  description: "The saved profiles: name, origin, purpose, and known tools of each.",
  inputSchema: objectOf({}, []),
  annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
};

export const designPrompt = {
  name: "design_profile",
  title: "Explore a server and save a profile",
  description: "Guides through explore → design → save for one MCP server.",
  arguments: [
    { name: "uri", description: "Launcher URI of the server, such as mcp+npx://package@version.", required: true },
    { name: "name", description: "The name of the profile; by default the model chooses one.", required: false },
    { name: "purpose", description: "What the profile is for.", required: false },
  ],
} as const;

/** The contract for a model that explores MCP servers and saves what it learns (J8). */
export const exploreContract: Contract = {
  description:
    "Explores upstreams (other MCP servers) and saves what was learned as profiles: explore, call some tools, draft_profile, save_profile. " +
    "The prompt design_profile guides through it. Servers are started on this machine.",
  tools: [exploreTool, callTool, draftProfileTool, saveProfileTool, listProfilesTool],
  resources: [],
  resourceTemplates: [],
  prompts: [designPrompt],
};

function objectOf(properties: JsonSchema, required: readonly string[]): JsonSchema {
  return {
    type: "object",
    properties,
    ...(required.length > 0 && { required: [...required] }),
    additionalProperties: false,
  };
}
