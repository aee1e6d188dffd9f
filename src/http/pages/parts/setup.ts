import type { ToolContract } from "../../../contract/contract.ts";
import { isObject, type Json, type JsonObject, type JsonSchema } from "../../../lib/json.ts";
import type { ClientAccess } from "./credentials.ts";
import { shellWord } from "./text.ts";

/** How to add a server to a client, in its own format. docs/clients.md says how each was tried. */
interface Setup {
  readonly id: string;
  readonly client: string;
  /** A link that hands the server to the client, which asks its user first. */
  readonly link?: string;
  /** The steps: each has a text to run, or to put into a file. */
  readonly steps: readonly SetupStep[];
  /** A command that tells if the client is connected. */
  readonly check?: string;
  /** Anything else that a person has to know before it works. */
  readonly note?: string;
}

interface SetupStep {
  readonly what: string;
  readonly text: string;
  /** A file's path, where the text goes into one. */
  readonly file?: string;
}

export interface SetupFor {
  /** The server's name, or another name for this connection. */
  readonly name: string;
  /** The whole address of the MCP endpoint. */
  readonly url: string;
  /** The tool for an example call. */
  readonly tool: Pick<ToolContract, "name" | "inputSchema"> | undefined;
  readonly access: ClientAccess;
}

export function setupsFor({ name, url, tool, access }: SetupFor): Setup[] {
  const id = clientName(name);
  const address = shellWord(url);
  const isGiven = access === "token";
  const headers = (token: string) => (isGiven ? { headers: { Authorization: `Bearer ${token}` } } : {});
  const header = isGiven ? ` --header ${shellWord(`Authorization: Bearer ${IN_ENVIRONMENT}`)}` : "";
  const vsCode = vsCodeServer(id, url, isGiven);
  return [
    {
      id: "claude-code",
      client: "Claude Code",
      steps: [
        { what: "Run", text: `claude mcp add --transport http ${id} ${address}${header}` },
        {
          what: "or, for everyone on a project, put this into",
          file: ".mcp.json",
          text: json({ mcpServers: { [id]: { type: "http", url, ...headers(IN_ENVIRONMENT) } } }),
        },
      ],
      check: "claude mcp list",
      note: "The command applies to the folder in which you run it, or everywhere with --scope user; servers in a project's file must be approved in Claude Code once.",
    },
    {
      id: "claude-desktop",
      client: "Claude Desktop",
      steps: [
        {
          what: "Settings → Developer → Edit Config opens",
          file: "claude_desktop_config.json",
          text: json({ mcpServers: { [id]: bridge(url, isGiven) } }),
        },
      ],
      note: `${isGiven ? "Replace <token> with the token. " : ""}This needs Node.js, and takes effect when you restart Claude Desktop.`,
    },
    {
      id: "cursor",
      client: "Cursor",
      link: cursorLink(id, { url, ...headers("${env:BERTH_TOKEN}") }),
      steps: [
        {
          what: "or put this into",
          file: "~/.cursor/mcp.json",
          text: json({ mcpServers: { [id]: { url, ...headers("${env:BERTH_TOKEN}") } } }),
        },
      ],
    },
    {
      id: "vs-code",
      client: "VS Code",
      link: vsCodeLink(vsCode),
      steps: [
        { what: "or put this into", file: ".vscode/mcp.json", text: vsCodeFile(vsCode) },
        { what: "or run", text: `code --add-mcp ${shellWord(JSON.stringify(vsCode))}` },
      ],
    },
    {
      id: "codex",
      client: "Codex",
      steps: [
        {
          what: "Run",
          text: `codex mcp add ${id} --url ${address}${isGiven ? " --bearer-token-env-var BERTH_TOKEN" : ""}`,
        },
        {
          what: "or put this into",
          file: "~/.codex/config.toml",
          text: `[mcp_servers.${id}]\nurl = ${JSON.stringify(url)}${isGiven ? '\nbearer_token_env_var = "BERTH_TOKEN"' : ""}`,
        },
      ],
    },
    {
      id: "gemini-cli",
      client: "Gemini CLI",
      steps: [
        { what: "Run", text: `gemini mcp add --scope user --transport http ${id} ${address}${header}` },
        {
          what: "or put this into",
          file: "~/.gemini/settings.json",
          text: json({ mcpServers: { [id]: { url, type: "http", ...headers(IN_ENVIRONMENT) } } }),
        },
      ],
      check: "gemini mcp list",
      note: "Gemini CLI uses no servers in a folder that you do not trust.",
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

/** The variable as Claude Code and Gemini CLI expand it in their settings, so that no file contains a token. */
const IN_ENVIRONMENT = "${BERTH_TOKEN}";

/** The name of a server in a client: some allow no dot or slash, and in rules of Gemini CLI the name ends at a `_`. */
export function clientName(name: string): string {
  return name.replace(/[^A-Za-z0-9-]+/g, "-").replace(/^-+|-+$/g, "") || "berth";
}

/**
 * Claude Desktop starts its servers itself; the bridge needs a flag for an address that is neither https nor local. A
 * desktop program has no shell environment, and some break arguments with spaces.
 */
function bridge(url: string, isGiven: boolean): object {
  const { protocol, hostname } = new URL(url);
  const isPlain = protocol === "http:" && hostname !== "localhost" && hostname !== "127.0.0.1";
  const header = isGiven ? ["--header", "Authorization:${BERTH_AUTHORIZATION}"] : [];
  return {
    command: "npx",
    args: ["-y", "mcp-remote", url, ...(isPlain ? ["--allow-http"] : []), ...header],
    ...(isGiven && { env: { BERTH_AUTHORIZATION: "Bearer <token>" } }),
  };
}

function json(value: unknown): string {
  return JSON.stringify(value, null, 2);
}

/** Server settings for VS Code and Cursor, as their documentation has them ("MCP install links", "MCP URL handler"). */

/** A server as VS Code's command and link take it. */
interface VsCodeServer {
  readonly name: string;
  readonly type: "http";
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The inputs that VS Code asks its user for, and keeps in its secret storage. */
  readonly inputs?: readonly object[];
}

function vsCodeServer(name: string, url: string, isGiven: boolean): VsCodeServer {
  const id = `${name}-token`;
  return {
    name,
    type: "http",
    url,
    ...(isGiven && {
      headers: { Authorization: `Bearer \${input:${id}}` },
      inputs: [{ type: "promptString", id, description: `Token for ${name}`, password: true }],
    }),
  };
}

function vsCodeFile({ name, inputs, ...server }: VsCodeServer): string {
  return JSON.stringify({ ...(inputs && { inputs }), servers: { [name]: server } }, null, 2);
}

/** Opens VS Code, which asks first. It unescapes twice, so the JSON has no escapes left for the second time. */
function vsCodeLink(server: VsCodeServer): string {
  return `vscode:mcp/install?${encodeURIComponent(JSON.stringify(server).replaceAll("%", "\\u0025"))}`;
}

/** Opens Cursor, which asks first, too. */
function cursorLink(name: string, server: object): string {
  const config = Buffer.from(JSON.stringify(server)).toString("base64");
  return `cursor://anysphere.cursor-deeplink/mcp/install?name=${name}&config=${encodeURIComponent(config)}`;
}

type Tool = Pick<ToolContract, "name" | "inputSchema"> | undefined;

/** A command that calls the tool, or lists tools where there is none. */
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
/** In UTF-16 units; a longer sample is of no use to a reader. */
const SAMPLE_UNITS_MAX = 4_000;

/**
 * Makes arguments for a first call that works, valid as far as a look at the schema can tell. Empty when they would be
 * longer than a reader can use, which a schema of a few bytes can ask for.
 */
export function sampleArguments(schema: JsonSchema): JsonObject {
  const [example] = Array.isArray(schema["examples"]) ? (schema["examples"] as Json[]) : [];
  const room = new Room();
  const sample = isObject(example) ? room.take(example) : sampleObject(schema, 0, room);
  return room.isLeft ? sample : {};
}

/** Counts the values and names of a sample; its makers stop when no room is left. */
class Room {
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

function sampleObject(schema: JsonSchema, depth: number, room: Room): JsonObject {
  const { properties, required } = schema;
  const sample: JsonObject = {};
  if (!isObject(properties) || !Array.isArray(required)) return sample;
  for (const name of new Set(required)) {
    if (!room.isLeft) break;
    if (typeof name !== "string" || !Object.hasOwn(properties, name)) continue;
    room.take(name);
    const value = sampleOf(properties[name], depth + 1, room);
    Object.defineProperty(sample, name, { value, enumerable: true, configurable: true, writable: true });
  }
  return sample;
}

function sampleOf(schema: unknown, depth: number, room: Room): Json {
  if (!isObject(schema) || depth > DEPTH_MAX) return room.take(null);
  for (const keyword of ["const", "default"]) if (keyword in schema) return room.take(schema[keyword] as Json);
  for (const keyword of ["examples", "enum"]) {
    const values = schema[keyword];
    if (Array.isArray(values) && values.length > 0) return room.take(values[0] as Json);
  }
  const kinds = schema["anyOf"] ?? schema["oneOf"];
  if (Array.isArray(kinds)) return sampleOf(kinds[0], depth, room);
  const type = Array.isArray(schema["type"]) ? (schema["type"] as unknown[])[0] : schema["type"];
  switch (type) {
    case "string":
      return room.take(sampleText(schema));
    case "integer":
    case "number":
      return room.take(sampleNumber(schema));
    case "boolean":
      return room.take(true);
    case "array":
      return typeof schema["minItems"] === "number" && schema["minItems"] > 0
        ? [sampleOf(schema["items"], depth + 1, room)]
        : room.take([]);
    case "object":
      return sampleObject(schema, depth, room);
    default:
      return room.take(null);
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
