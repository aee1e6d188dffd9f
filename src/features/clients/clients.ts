import { clientFiles, clientId, type ClientFiles } from "../../config-files/client-files.ts";
import type { FilePart } from "../../config-files/file-part.ts";

/** A server as named in a client's configuration. */
export interface ClientServer {
  /** The name in the client: letters, digits and hyphens. */
  readonly name: string;
  /** The full URL of the MCP endpoint. */
  readonly url: string;
  /** True if requests need a token. Files name the variable with the token, and never contain it. */
  readonly needsToken: boolean;
}

/** A client, and its configuration files as Berth writes them. */
export interface ClientKind extends ClientFiles {
  /** As in `berth connect --client`. */
  readonly id: string;
  readonly name: string;
  /** `json` is parsed by `JSON.parse`; `jsonc` may have comments and trailing commas. */
  readonly format: "json" | "jsonc" | "toml";
  /** The parts that add a server. The last one is the server itself, under its name. */
  parts(server: ClientServer): readonly FilePart[];
  /** Where the client gets the token, if requests need one. */
  readonly token: string;
  /** Instructions for a person before the client uses a server of the file. */
  readonly note?: string;
  /** The same for the file of a project. */
  readonly projectNote?: string;
}

const TOKEN_VARIABLE = "the variable BERTH_TOKEN of the environment that it is started in";

export const claudeCode: ClientKind = {
  id: "claude-code",
  ...clientFiles["claude-code"],
  name: "Claude Code",
  format: "json",
  parts: ({ name, url, needsToken: isGiven }) => [
    { path: ["mcpServers", name], value: { type: "http", url, ...headers(isGiven, "${BERTH_TOKEN}") } },
  ],
  token: TOKEN_VARIABLE,
  projectNote: "Servers in a project's file must be approved in Claude Code once.",
};

export const claudeDesktop: ClientKind = {
  id: "claude-desktop",
  ...clientFiles["claude-desktop"],
  name: "Claude Desktop",
  format: "json",
  parts: ({ name, url, needsToken: isGiven }) => [{ path: ["mcpServers", name], value: bridge(url, isGiven) }],
  token: "this file: replace <token> with the token",
  note: "This needs Node.js, and takes effect when you restart Claude Desktop.",
};

export const cursor: ClientKind = {
  id: "cursor",
  ...clientFiles.cursor,
  name: "Cursor",
  format: "jsonc",
  parts: ({ name, url, needsToken: isGiven }) => [
    { path: ["mcpServers", name], value: { url, ...headers(isGiven, "${env:BERTH_TOKEN}") } },
  ],
  token: TOKEN_VARIABLE,
};

export const vsCode: ClientKind = {
  id: "vs-code",
  ...clientFiles["vs-code"],
  name: "VS Code",
  format: "jsonc",
  parts(server) {
    const input = vsCodeInput(server);
    const serverPart: FilePart = { path: ["servers", server.name], value: vsCodeServer(server) };
    return input ? [{ path: ["inputs"], element: input }, serverPart] : [serverPart];
  },
  token: "its user: it asks when the server first starts, and stores the token in its secret storage",
};

export const codex: ClientKind = {
  id: "codex",
  ...clientFiles.codex,
  name: "Codex",
  format: "toml",
  parts: ({ name, url, needsToken: isGiven }) => [
    { path: ["mcp_servers", name], value: { url, ...(isGiven && { bearer_token_env_var: "BERTH_TOKEN" }) } },
  ],
  token: TOKEN_VARIABLE,
  projectNote: "Codex reads a project's file only in folders that you trust.",
};

export const geminiCli: ClientKind = {
  id: "gemini-cli",
  ...clientFiles["gemini-cli"],
  name: "Gemini CLI",
  format: "jsonc",
  parts: ({ name, url, needsToken: isGiven }) => [
    { path: ["mcpServers", name], value: { url, type: "http", ...headers(isGiven, "${BERTH_TOKEN}") } },
  ],
  token: TOKEN_VARIABLE,
  note: "Gemini CLI uses no servers in a folder that you do not trust.",
};

export const opencode: ClientKind = {
  id: "opencode",
  ...clientFiles.opencode,
  name: "opencode",
  format: "jsonc",
  parts: ({ name, url, needsToken: isGiven }) => [
    { path: ["mcp", name], value: { type: "remote", url, ...headers(isGiven, "{env:BERTH_TOKEN}") } },
  ],
  token: TOKEN_VARIABLE,
};

export const clients: readonly ClientKind[] = [claudeCode, claudeDesktop, codex, cursor, geminiCli, opencode, vsCode];

export function findClient(id: string): ClientKind | undefined {
  return clients.find((client) => client.id === clientId(id));
}

/** A complete file with only this server. */
export function fileText(client: ClientKind, server: ClientServer): string {
  const parts = client.parts(server);
  if (client.format === "toml") {
    return parts.map((part) => ("value" in part ? tomlTable(part.path, part.value) : []).join("\n")).join("\n\n");
  }
  const members = parts.map((part) => {
    return "value" in part ? [part.path[0], { [part.path.at(-1)!]: part.value }] : [part.path[0], [part.element]];
  });
  return JSON.stringify(Object.fromEntries(members), null, 2);
}

/** The lines of a TOML table. */
export function tomlTable(path: readonly string[], value: Readonly<Record<string, unknown>>): string[] {
  // JSON strings and booleans are valid TOML.
  const pairs = Object.entries(value).map(([name, each]) => `${name} = ${JSON.stringify(each)}`);
  return [`[${path.join(".")}]`, ...pairs];
}

/** The name of a server in a client: some allow no dots or slashes, and rules of Gemini CLI end a name at `_`. */
export function clientName(name: string): string {
  return name.replace(/[^A-Za-z0-9-]+/g, "-").replace(/^-+|-+$/g, "") || "berth";
}

/** The server's settings in VS Code's file, and in `code --add-mcp` and its install link. */
function vsCodeServer({ name, url, needsToken: isGiven }: ClientServer): Record<string, unknown> {
  return { type: "http", url, ...headers(isGiven, `\${input:${name}-token}`) };
}

/** The input for which VS Code prompts its user. */
export function vsCodeInput({ name, needsToken: isGiven }: ClientServer): Record<string, unknown> | undefined {
  if (!isGiven) return undefined;
  return { type: "promptString", id: `${name}-token`, description: `Token for ${name}`, password: true };
}

function headers(needsToken: boolean, token: string): object {
  return needsToken ? { headers: { Authorization: `Bearer ${token}` } } : {};
}

/**
 * Claude Desktop starts its servers itself; the bridge needs a flag for a URL that is neither https nor local. Desktop
 * programs have no shell environment, and some split arguments at spaces.
 */
function bridge(url: string, needsToken: boolean): Record<string, unknown> {
  const { protocol, hostname } = new URL(url);
  const isPlain = protocol === "http:" && hostname !== "localhost" && hostname !== "127.0.0.1";
  const header = needsToken ? ["--header", "Authorization:${BERTH_AUTHORIZATION}"] : [];
  return {
    command: "npx",
    args: ["-y", "mcp-remote", url, ...(isPlain ? ["--allow-http"] : []), ...header],
    ...(needsToken && { env: { BERTH_AUTHORIZATION: "Bearer <token>" } }),
  };
}
