import type { ToolContract } from "../../../contract/contract.ts";
import { sampleArguments } from "./sample.ts";

/** How a client is told of a server, in its own format. docs/clients.md says how each was tried. */
export interface Setup {
  readonly id: string;
  readonly client: string;
  /** What to do with the text: where to put it or that it is to be run. */
  readonly steps: readonly SetupStep[];
  /** A command that says whether the client is connected. */
  readonly check?: string;
  /** What else a person has to know before it works. */
  readonly note?: string;
}

export interface SetupStep {
  readonly what: string;
  readonly text: string;
  /** A file's path, where the text goes into one. */
  readonly file?: string;
}

export interface SetupFor {
  /** The server's name, or what else this connection is to be called. */
  readonly name: string;
  /** The whole address of the MCP endpoint. */
  readonly url: string;
  /** For an example of a call. */
  readonly tool: Pick<ToolContract, "name" | "inputSchema"> | undefined;
}

export function setupsFor({ name, url, tool }: SetupFor): Setup[] {
  const id = clientName(name);
  const address = quoted(url);
  return [
    {
      id: "claude-code",
      client: "Claude Code",
      steps: [
        { what: "Run", text: `claude mcp add --transport http ${id} ${address}` },
        {
          what: "or, for everyone who works on a project, put this into",
          file: ".mcp.json",
          text: json({ mcpServers: { [id]: { type: "http", url } } }),
        },
      ],
      check: "claude mcp list",
      note: "What a project names has to be approved in Claude Code once.",
    },
    {
      id: "claude-desktop",
      client: "Claude Desktop",
      steps: [
        {
          what: "Settings → Developer → Edit Config opens",
          file: "claude_desktop_config.json",
          text: json({ mcpServers: { [id]: { command: "npx", args: bridgeArguments(url) } } }),
        },
      ],
      note: "This needs Node.js, and takes effect when Claude Desktop is started again.",
    },
    {
      id: "cursor",
      client: "Cursor",
      steps: [
        {
          what: "Put this into",
          file: "~/.cursor/mcp.json",
          text: json({ mcpServers: { [id]: { url } } }),
        },
      ],
    },
    {
      id: "vs-code",
      client: "VS Code",
      steps: [
        { what: "Put this into", file: ".vscode/mcp.json", text: json({ servers: { [id]: { type: "http", url } } }) },
        { what: "or run", text: `code --add-mcp ${quoted(JSON.stringify({ name: id, type: "http", url }))}` },
      ],
    },
    {
      id: "codex",
      client: "Codex",
      steps: [
        { what: "Run", text: `codex mcp add ${id} --url ${address}` },
        {
          what: "or put this into",
          file: "~/.codex/config.toml",
          text: `[mcp_servers.${id}]\nurl = ${JSON.stringify(url)}`,
        },
      ],
    },
    {
      id: "gemini-cli",
      client: "Gemini CLI",
      steps: [
        { what: "Run", text: `gemini mcp add --scope user --transport http ${id} ${address}` },
        {
          what: "or put this into",
          file: "~/.gemini/settings.json",
          text: json({ mcpServers: { [id]: { url, type: "http" } } }),
        },
      ],
      check: "gemini mcp list",
      note: "Gemini CLI uses no servers in a folder that you do not trust.",
    },
    { id: "curl", client: "curl", steps: [{ what: "Run", text: curl(url, tool) }] },
    {
      id: "client",
      client: "TypeScript",
      steps: [
        { what: "Run", text: "npm install @modelcontextprotocol/client" },
        { what: "then put this into", file: "client.mjs", text: program(url, tool) },
      ],
    },
  ];
}

/** Clients take letters, digits, `-` and `_`, and some no dot or slash. */
function clientName(name: string): string {
  return name.replace(/[^A-Za-z0-9_-]+/g, "-").replace(/^-+|-+$/g, "") || "berth";
}

/** Claude Desktop starts its servers itself; the bridge asks to be told so where an address is neither https nor local. */
function bridgeArguments(url: string): string[] {
  const { protocol, hostname } = new URL(url);
  const isPlain = protocol === "http:" && hostname !== "localhost" && hostname !== "127.0.0.1";
  return ["-y", "mcp-remote", url, ...(isPlain ? ["--allow-http"] : [])];
}

function curl(url: string, tool: SetupFor["tool"]): string {
  const request = tool
    ? { method: "tools/call", params: { name: tool.name, arguments: sampleArguments(tool.inputSchema) } }
    : { method: "tools/list" };
  return [
    `curl -s ${quoted(url)} \\`,
    "  -H 'Content-Type: application/json' -H 'Accept: application/json' \\",
    `  -d ${quoted(JSON.stringify({ jsonrpc: "2.0", id: 1, ...request }))}`,
  ].join("\n");
}

function program(url: string, tool: SetupFor["tool"]): string {
  const lines = [
    'import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";',
    "",
    'const client = new Client({ name: "my-client", version: "1.0.0" }, { versionNegotiation: { mode: "auto" } });',
    `await client.connect(new StreamableHTTPClientTransport(new URL(${JSON.stringify(url)})));`,
    "console.log((await client.listTools()).tools.map((tool) => tool.name));",
  ];
  if (tool) {
    const call = { name: tool.name, arguments: sampleArguments(tool.inputSchema) };
    lines.push(`console.log(await client.callTool(${JSON.stringify(call)}));`);
  }
  return [...lines, "await client.close();"].join("\n");
}

/** One word for a shell, whatever is in it. */
function quoted(text: string): string {
  return /^[A-Za-z0-9_./:@%+=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

function json(value: unknown): string {
  return JSON.stringify(value, null, 2);
}
