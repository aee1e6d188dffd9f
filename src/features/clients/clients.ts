import { homedir } from "node:os";
import { join } from "node:path";
import type { FilePart } from "../../config-files/file-part.ts";

/** A server as a client's configuration names it. */
export interface ClientServer {
  /** The name there: letters, digits and hyphens. */
  readonly name: string;
  /** The whole address of the MCP endpoint. */
  readonly url: string;
  /** True where requests need a token. Files name the variable that holds it, and never the token itself. */
  readonly isGiven: boolean;
}

/** A client, and its own configuration files as Berth writes them. */
export interface KnownClient {
  /** As in `berth connect --client`. */
  readonly id: string;
  readonly name: string;
  /** `json` is read by `JSON.parse`; `jsonc` may have comments and trailing commas. */
  readonly format: "json" | "jsonc" | "toml";
  /** The file for all of its user's work. `env` and `platform` are those of the process. */
  readonly userFile: (env: NodeJS.ProcessEnv, platform?: NodeJS.Platform) => string;
  /** The file for everyone on a project, from the project's folder; undefined where it has none. */
  readonly projectFile?: string;
  /** Other names of these files; where one of them exists, the client reads that. */
  readonly otherNames?: readonly string[];
  /** The parts that add a server. The last one is the server itself, at the place of its name. */
  parts(server: ClientServer): readonly FilePart[];
  /** The source of the token, where requests need one. */
  readonly token: string;
  /** Something that a person has to do, or to know, before the client uses a server of the file. */
  readonly note?: string;
  /** The same where the file is that of a project. */
  readonly projectNote?: string;
}

const FROM_ENVIRONMENT = "the variable BERTH_TOKEN of the environment that it is started in";

export const claudeCode: KnownClient = {
  id: "claude-code",
  name: "Claude Code",
  format: "json",
  userFile: (env) => join(env["CLAUDE_CONFIG_DIR"] || homeOf(env), ".claude.json"),
  projectFile: ".mcp.json",
  parts: ({ name, url, isGiven }) => [
    { path: ["mcpServers", name], value: { type: "http", url, ...headers(isGiven, "${BERTH_TOKEN}") } },
  ],
  token: FROM_ENVIRONMENT,
  projectNote: "Servers of a project's file must be approved in Claude Code once.",
};

export const claudeDesktop: KnownClient = {
  id: "claude-desktop",
  name: "Claude Desktop",
  format: "json",
  userFile: (env, platform) => join(applicationData(env, platform), "Claude/claude_desktop_config.json"),
  parts: ({ name, url, isGiven }) => [{ path: ["mcpServers", name], value: bridge(url, isGiven) }],
  token: "this file: replace <token> with the token",
  note: "This needs Node.js, and takes effect when you restart Claude Desktop.",
};

export const cursor: KnownClient = {
  id: "cursor",
  name: "Cursor",
  format: "jsonc",
  userFile: (env) => join(homeOf(env), ".cursor/mcp.json"),
  projectFile: ".cursor/mcp.json",
  parts: ({ name, url, isGiven }) => [
    { path: ["mcpServers", name], value: { url, ...headers(isGiven, "${env:BERTH_TOKEN}") } },
  ],
  token: FROM_ENVIRONMENT,
};

export const vsCode: KnownClient = {
  id: "vs-code",
  name: "VS Code",
  format: "jsonc",
  userFile: (env, platform) => join(applicationData(env, platform), "Code/User/mcp.json"),
  projectFile: ".vscode/mcp.json",
  parts(server) {
    const input = vsCodeInput(server);
    const own: FilePart = { path: ["servers", server.name], value: vsCodeServer(server) };
    return input ? [{ path: ["inputs"], element: input }, own] : [own];
  },
  token: "its user: it asks when the server first starts, and keeps the token in its secret storage",
};

export const codex: KnownClient = {
  id: "codex",
  name: "Codex",
  format: "toml",
  userFile: (env) => join(env["CODEX_HOME"] || join(homeOf(env), ".codex"), "config.toml"),
  projectFile: ".codex/config.toml",
  parts: ({ name, url, isGiven }) => [
    { path: ["mcp_servers", name], value: { url, ...(isGiven && { bearer_token_env_var: "BERTH_TOKEN" }) } },
  ],
  token: FROM_ENVIRONMENT,
  projectNote: "Codex reads a project's file only in folders that you trust.",
};

export const geminiCli: KnownClient = {
  id: "gemini-cli",
  name: "Gemini CLI",
  format: "jsonc",
  userFile: (env) => join(env["GEMINI_CLI_HOME"] || homeOf(env), ".gemini/settings.json"),
  projectFile: ".gemini/settings.json",
  parts: ({ name, url, isGiven }) => [
    { path: ["mcpServers", name], value: { url, type: "http", ...headers(isGiven, "${BERTH_TOKEN}") } },
  ],
  token: FROM_ENVIRONMENT,
  note: "Gemini CLI uses no servers in a folder that you do not trust.",
};

export const opencode: KnownClient = {
  id: "opencode",
  name: "opencode",
  format: "jsonc",
  userFile: (env) => join(env["XDG_CONFIG_HOME"] || join(homeOf(env), ".config"), "opencode/opencode.json"),
  projectFile: "opencode.json",
  otherNames: ["opencode.jsonc"],
  parts: ({ name, url, isGiven }) => [
    { path: ["mcp", name], value: { type: "remote", url, ...headers(isGiven, "{env:BERTH_TOKEN}") } },
  ],
  token: FROM_ENVIRONMENT,
};

export const clients: readonly KnownClient[] = [claudeCode, claudeDesktop, codex, cursor, geminiCli, opencode, vsCode];

/** Names that people also use. */
const ALIASES: Readonly<Record<string, string>> = { vscode: "vs-code", gemini: "gemini-cli", claude: "claude-code" };

export function findClient(id: string): KnownClient | undefined {
  return clients.find((client) => client.id === (ALIASES[id] ?? id));
}

/** A whole file that has nothing but the server. */
export function fileText(client: KnownClient, server: ClientServer): string {
  const parts = client.parts(server);
  if (client.format === "toml") {
    return parts.map((part) => ("value" in part ? tomlTable(part.path, part.value) : []).join("\n")).join("\n\n");
  }
  const members = parts.map((part) => {
    return "value" in part ? [part.path[0], { [part.path[1]]: part.value }] : [part.path[0], [part.element]];
  });
  return JSON.stringify(Object.fromEntries(members), null, 2);
}

/** The lines of a table of a TOML file. */
export function tomlTable(path: readonly string[], value: Readonly<Record<string, unknown>>): string[] {
  // JSON writes strings and booleans as TOML does.
  const pairs = Object.entries(value).map(([name, each]) => `${name} = ${JSON.stringify(each)}`);
  return [`[${path.join(".")}]`, ...pairs];
}

/** The name of a server in a client: some allow no dot or slash, and in rules of Gemini CLI the name ends at a `_`. */
export function clientName(name: string): string {
  return name.replace(/[^A-Za-z0-9-]+/g, "-").replace(/^-+|-+$/g, "") || "berth";
}

/** The server's settings in VS Code's file, and in what `code --add-mcp` and the link take. */
function vsCodeServer({ name, url, isGiven }: ClientServer): Record<string, unknown> {
  return { type: "http", url, ...headers(isGiven, `\${input:${name}-token}`) };
}

/** The input that VS Code asks its user for. */
export function vsCodeInput({ name, isGiven }: ClientServer): Record<string, unknown> | undefined {
  if (!isGiven) return undefined;
  return { type: "promptString", id: `${name}-token`, description: `Token for ${name}`, password: true };
}

function headers(isGiven: boolean, token: string): object {
  return isGiven ? { headers: { Authorization: `Bearer ${token}` } } : {};
}

/**
 * Claude Desktop starts its servers itself; the bridge needs a flag for an address that is neither https nor local. A
 * desktop program has no shell environment, and some break arguments with spaces.
 */
function bridge(url: string, isGiven: boolean): Record<string, unknown> {
  const { protocol, hostname } = new URL(url);
  const isPlain = protocol === "http:" && hostname !== "localhost" && hostname !== "127.0.0.1";
  const header = isGiven ? ["--header", "Authorization:${BERTH_AUTHORIZATION}"] : [];
  return {
    command: "npx",
    args: ["-y", "mcp-remote", url, ...(isPlain ? ["--allow-http"] : []), ...header],
    ...(isGiven && { env: { BERTH_AUTHORIZATION: "Bearer <token>" } }),
  };
}

function homeOf(env: NodeJS.ProcessEnv): string {
  return env["HOME"] || homedir();
}

/** Where desktop programs of this system keep the settings of a user. */
function applicationData(env: NodeJS.ProcessEnv, platform: NodeJS.Platform = process.platform): string {
  if (platform === "darwin") return join(homeOf(env), "Library/Application Support");
  if (platform === "win32") return env["APPDATA"] || join(homedir(), "AppData/Roaming");
  return env["XDG_CONFIG_HOME"] || join(homeOf(env), ".config");
}
