import type { ToolContract } from "../../../contract/contract.ts";
import type { ClientAccess } from "./credentials.ts";
import { cursorLink, vsCodeFile, vsCodeLink, vsCodeServer } from "./setup-editors.ts";
import { curl, program } from "./setup-programs.ts";
import { shellWord } from "./text.ts";

/** How to add a server to a client, in its own format. docs/clients.md says how each was tried. */
export interface Setup {
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

export interface SetupStep {
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
          what: "or, for everyone who works on a project, put this into",
          file: ".mcp.json",
          text: json({ mcpServers: { [id]: { type: "http", url, ...headers(IN_ENVIRONMENT) } } }),
        },
      ],
      check: "claude mcp list",
      note: "The command counts in the folder in which it is run, or everywhere with --scope user; what a project's file names has to be approved in Claude Code once.",
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
      note: `${isGiven ? "Put the token in the place of <token>. " : ""}This needs Node.js, and takes effect when Claude Desktop is started again.`,
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
