import { homedir } from "node:os";
import { join } from "node:path";

/** Where a client stores the list of its MCP servers. */
export interface ClientFiles {
  /** The file for all work of its user. `env` and `platform` are those of the process. */
  readonly userFile: (env: NodeJS.ProcessEnv, platform?: NodeJS.Platform) => string;
  /** The file for everyone on a project, relative to the project's folder; undefined if the client has none. */
  readonly projectFile?: string;
  /** Alternative names of these files; if one of them exists, the client reads that. */
  readonly otherNames?: readonly string[];
}

export const clientFiles = {
  "claude-code": {
    userFile: (env) => join(env["CLAUDE_CONFIG_DIR"] || homeFolder(env), ".claude.json"),
    projectFile: ".mcp.json",
  },
  "claude-desktop": {
    userFile: (env, platform) => join(applicationData(env, platform), "Claude/claude_desktop_config.json"),
  },
  codex: {
    userFile: (env) => join(env["CODEX_HOME"] || join(homeFolder(env), ".codex"), "config.toml"),
    projectFile: ".codex/config.toml",
  },
  cursor: { userFile: (env) => join(homeFolder(env), ".cursor/mcp.json"), projectFile: ".cursor/mcp.json" },
  "gemini-cli": {
    userFile: (env) => join(env["GEMINI_CLI_HOME"] || homeFolder(env), ".gemini/settings.json"),
    projectFile: ".gemini/settings.json",
  },
  goose: { userFile: (env) => join(configFolder(env), "goose/config.yaml") },
  opencode: {
    userFile: (env) => join(configFolder(env), "opencode/opencode.json"),
    projectFile: "opencode.json",
    otherNames: ["opencode.jsonc"],
  },
  "vs-code": {
    userFile: (env, platform) => join(applicationData(env, platform), "Code/User/mcp.json"),
    projectFile: ".vscode/mcp.json",
  },
  windsurf: { userFile: (env) => join(homeFolder(env), ".codeium/windsurf/mcp_config.json") },
  zed: { userFile: (env) => join(configFolder(env), "zed/settings.json"), projectFile: ".zed/settings.json" },
} as const satisfies Record<string, ClientFiles>;

/** Other common names. */
const ALIASES: Readonly<Record<string, string>> = { vscode: "vs-code", gemini: "gemini-cli", claude: "claude-code" };

export function clientId(id: string): string {
  const lowerCase = id.toLowerCase();
  return Object.hasOwn(ALIASES, lowerCase) ? ALIASES[lowerCase]! : lowerCase;
}

function homeFolder(env: NodeJS.ProcessEnv): string {
  return env["HOME"] || homedir();
}

function configFolder(env: NodeJS.ProcessEnv): string {
  return env["XDG_CONFIG_HOME"] || join(homeFolder(env), ".config");
}

/** Where desktop programs on this system store a user's settings. */
function applicationData(env: NodeJS.ProcessEnv, platform: NodeJS.Platform = process.platform): string {
  if (platform === "darwin") return join(homeFolder(env), "Library/Application Support");
  if (platform === "win32") return env["APPDATA"] || join(homedir(), "AppData/Roaming");
  return configFolder(env);
}
