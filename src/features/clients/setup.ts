import type { SetupFor } from "../../http/feature-routes.ts";
import type { ClientAccess } from "../../http/pages/parts/credentials.ts";
import { shellWord } from "../../http/pages/parts/text.ts";
import { isObject, type Json, type JsonObject, type JsonSchema } from "../../lib/json.ts";
import {
  claudeCode,
  claudeDesktop,
  clientName,
  codex,
  cursor,
  fileText,
  geminiCli,
  opencode,
  vsCode,
  vsCodeInput,
  type ClientServer,
  type ClientKind,
} from "./clients.ts";

/**
 * How to add a server to each client, in its own format: steps, each with text to run or to put into a file, and a link
 * that opens the client. docs/clients.md describes how each was tested.
 */
export function setupsFor({ name, url, tool, access }: SetupFor) {
  const isGiven = access === "token";
  const server: ClientServer = { name: clientName(name), url, needsToken: isGiven };
  const { name: id } = server;
  const address = shellWord(url);
  const endpoint = shellWord(endingInMcp(url));
  const inspectorHeader = isGiven ? ' --header "Authorization: Bearer $BERTH_TOKEN"' : "";
  const header = isGiven ? ` --header ${shellWord("Authorization: Bearer ${BERTH_TOKEN}")}` : "";
  return [
    {
      ...identify(claudeCode),
      steps: [
        { what: "Run", text: `claude mcp add --transport http ${id} ${address}${header}` },
        { what: "or, for everyone on a project, put this into", file: ".mcp.json", text: fileText(claudeCode, server) },
      ],
      check: "claude mcp list",
      note: "The command applies to the folder in which you run it, or everywhere with --scope user; servers in a project's file must be approved in Claude Code once.",
    },
    {
      ...identify(claudeDesktop),
      steps: [
        {
          what: "Settings → Developer → Edit Config opens",
          file: "claude_desktop_config.json",
          text: fileText(claudeDesktop, server),
        },
      ],
      note: `${isGiven ? "Replace <token> with the token. " : ""}This needs Node.js, and takes effect when you restart Claude Desktop.`,
    },
    {
      ...identify(cursor),
      link: cursorLink(id, serverConfig(cursor, server)),
      steps: [{ what: "or put this into", file: "~/.cursor/mcp.json", text: fileText(cursor, server) }],
    },
    {
      ...identify(vsCode),
      link: vsCodeLink(server),
      steps: [
        { what: "or put this into", file: ".vscode/mcp.json", text: fileText(vsCode, server) },
        { what: "or run", text: `code --add-mcp ${shellWord(JSON.stringify(vsCodeInstallation(server)))}` },
      ],
    },
    {
      ...identify(codex),
      steps: [
        {
          what: "Run",
          text: `codex mcp add ${id} --url ${address}${isGiven ? " --bearer-token-env-var BERTH_TOKEN" : ""}`,
        },
        { what: "or put this into", file: "~/.codex/config.toml", text: fileText(codex, server) },
      ],
    },
    {
      ...identify(geminiCli),
      steps: [
        { what: "Run", text: `gemini mcp add --scope user --transport http ${id} ${address}${header}` },
        { what: "or put this into", file: "~/.gemini/settings.json", text: fileText(geminiCli, server) },
      ],
      check: "gemini mcp list",
      note: "Gemini CLI uses no servers in a folder that you do not trust.",
    },
    {
      ...identify(opencode),
      steps: [
        {
          what: "Put this into",
          file: "~/.config/opencode/opencode.json",
          text: fileText(opencode, server),
        },
      ],
      check: "opencode mcp list",
      note: "For everyone on a project, put the same into its opencode.json.",
    },
    {
      id: "inspector",
      client: "Inspector",
      steps: [
        { what: "Run", text: `${INSPECTOR} --transport http --server-url ${endpoint}${inspectorHeader}` },
        {
          what: "or, without a browser",
          text: `${INSPECTOR} --cli ${endpoint} --transport http --method tools/list${inspectorHeader}`,
        },
      ],
      note: "The Inspector tries every feature of a server. Some of its versions change an address that does not end in /mcp.",
    },
    { id: "curl", client: "curl", steps: [{ what: "Run", text: curl(url, tool, access) }] },
    {
      id: "client",
      client: "TypeScript",
      steps: [
        { what: "Run", text: "npm install @modelcontextprotocol/client" },
        { what: "then put this into", file: "client.mjs", text: program(url, tool, access) },
      ],
    },
  ];
}

/** The newest version, which `npx` may download without asking. */
const INSPECTOR = "npx -y @modelcontextprotocol/inspector";

/** Another URL of the same endpoint, for a client that accepts only such URLs. */
function endingInMcp(url: string): string {
  return url.endsWith("/mcp") ? url : `${url}/mcp`;
}

function identify({ id, name }: ClientKind) {
  return { id, client: name };
}

function serverConfig(client: ClientKind, server: ClientServer): object {
  const part = client.parts(server).at(-1)!;
  return "value" in part ? part.value : (part.element as object);
}

/** A server as accepted by VS Code's command and link ("MCP URL handler" in its documentation). */
function vsCodeInstallation(server: ClientServer): object {
  const input = vsCodeInput(server);
  return { name: server.name, ...serverConfig(vsCode, server), ...(input && { inputs: [input] }) };
}

/**
 * Opens VS Code, which asks for confirmation. It unescapes twice, so the JSON must have no escapes left for the second
 * time.
 */
function vsCodeLink(server: ClientServer): string {
  const json = JSON.stringify(vsCodeInstallation(server)).replaceAll("%", "\\u0025");
  return `vscode:mcp/install?${encodeURIComponent(json)}`;
}

/** Opens Cursor, which also asks for confirmation ("MCP install links" in its documentation). */
function cursorLink(name: string, server: object): string {
  const config = Buffer.from(JSON.stringify(server)).toString("base64");
  return `cursor://anysphere.cursor-deeplink/mcp/install?name=${name}&config=${encodeURIComponent(config)}`;
}

type Tool = SetupFor["tool"];

/** A command that calls the tool, or lists tools if there is none. */
function curl(url: string, tool: Tool, access: ClientAccess): string {
  const request = tool
    ? { method: "tools/call", params: { name: tool.name, arguments: sampleArguments(tool.inputSchema) } }
    : { method: "tools/list" };
  return [
    `curl -s ${shellWord(url)} \\`,
    "  -H 'Content-Type: application/json' -H 'Accept: application/json' \\",
    ...(access === "open" ? [] : ['  -H "Authorization: Bearer $BERTH_TOKEN" \\']),
    `  -d ${shellWord(JSON.stringify({ jsonrpc: "2.0", id: 1, ...request }))}`,
  ].join("\n");
}

/** A module for Node.js that connects, lists the tools and calls one. */
function program(url: string, tool: Tool, access: ClientAccess): string {
  const address = `new URL(${JSON.stringify(url)})`;
  const options = access === "open" ? "" : ", { authProvider }";
  const lines = [
    'import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";',
    "",
    'const client = new Client({ name: "my-client", version: "1.0.0" }, { versionNegotiation: { mode: "auto" } });',
    ...(access === "open" ? [] : ["const authProvider = { token: async () => process.env.BERTH_TOKEN };"]),
    `await client.connect(new StreamableHTTPClientTransport(${address}${options}));`,
    "console.log((await client.listTools()).tools.map((tool) => tool.name));",
  ];
  if (tool) {
    const call = { name: tool.name, arguments: sampleArguments(tool.inputSchema) };
    lines.push(`console.log(await client.callTool(${JSON.stringify(call)}));`);
  }
  return [...lines, "await client.close();"].join("\n");
}

const DEPTH_MAX = 6;
/** In UTF-16 code units; a longer sample does not help a reader. */
const SAMPLE_UNITS_MAX = 4_000;

/**
 * Generates arguments for a first call that works, valid as far as the schema shows. Empty if they would be too long
 * for a reader, which even a schema of a few bytes can cause.
 */
export function sampleArguments(schema: JsonSchema): JsonObject {
  const [example] = Array.isArray(schema["examples"]) ? (schema["examples"] as Json[]) : [];
  const budget = new SampleBudget();
  const sample = isObject(example) ? budget.take(example) : sampleObject(schema, 0, budget);
  return budget.isLeft ? sample : {};
}

/** Counts the values and names of a sample; generating stops when the budget is exceeded. */
class SampleBudget {
  #units = SAMPLE_UNITS_MAX;

  get isLeft(): boolean {
    return this.#units >= 0;
  }

  take<Value extends Json>(value: Value): Value {
    this.#units -= typeof value === "string" ? value.length + 1 : 1;
    if (typeof value === "object" && value !== null) {
      for (const [key, member] of Object.entries(value)) {
        if (!this.isLeft) break;
        this.#units -= key.length + 1;
        this.take(member);
      }
    }
    return value;
  }
}

function sampleObject(schema: JsonSchema, depth: number, budget: SampleBudget): JsonObject {
  const { properties, required } = schema;
  const sample: JsonObject = {};
  if (!isObject(properties) || !Array.isArray(required)) return sample;
  for (const name of new Set(required)) {
    if (!budget.isLeft) break;
    if (typeof name !== "string" || !Object.hasOwn(properties, name)) continue;
    budget.take(name);
    const value = sampleValue(properties[name], depth + 1, budget);
    Object.defineProperty(sample, name, { value, enumerable: true, configurable: true, writable: true });
  }
  return sample;
}

function sampleValue(schema: unknown, depth: number, budget: SampleBudget): Json {
  if (!isObject(schema) || depth > DEPTH_MAX) return budget.take(null);
  for (const keyword of ["const", "default"]) if (keyword in schema) return budget.take(schema[keyword] as Json);
  for (const keyword of ["examples", "enum"]) {
    const values = schema[keyword];
    if (Array.isArray(values) && values.length > 0) return budget.take(values[0] as Json);
  }
  const kinds = schema["anyOf"] ?? schema["oneOf"];
  if (Array.isArray(kinds)) return sampleValue(kinds[0], depth, budget);
  const type = Array.isArray(schema["type"]) ? (schema["type"] as unknown[])[0] : schema["type"];
  switch (type) {
    case "string":
      return budget.take(sampleText(schema));
    case "integer":
    case "number":
      return budget.take(sampleNumber(schema));
    case "boolean":
      return budget.take(true);
    case "array":
      return typeof schema["minItems"] === "number" && schema["minItems"] > 0
        ? [sampleValue(schema["items"], depth + 1, budget)]
        : budget.take([]);
    case "object":
      return sampleObject(schema, depth, budget);
    default:
      return budget.take(null);
  }
}

const TEXTS: ReadonlyMap<unknown, string> = new Map(
  Object.entries({
    "date-time": "2026-01-31T12:00:00Z",
    date: "2026-01-31",
    time: "12:00:00Z",
    email: "name@example.com",
    uri: "https://example.com/",
    uuid: "00000000-0000-4000-8000-000000000000",
  }),
);

function sampleText(schema: Record<string, unknown>): string {
  const units = Math.min(Number(schema["minLength"] ?? 0), SAMPLE_UNITS_MAX + 1);
  return TEXTS.get(schema["format"]) ?? "hello".padEnd(units, "o");
}

function sampleNumber({ minimum, exclusiveMinimum, maximum }: Record<string, unknown>): number {
  if (typeof minimum === "number") return minimum;
  if (typeof exclusiveMinimum === "number") return exclusiveMinimum + 1;
  return typeof maximum === "number" ? Math.min(1, maximum) : 1;
}
