import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { askAppServer } from "./codex-app-server.mjs";
import { openInspector } from "./inspector.mjs";
import { offeredToModel } from "./no-model.mjs";
import { openVsCode } from "./vs-code.mjs";

/**
 * The clients as people install them. `check` throws where the client does not report a connection to the server, or
 * does not have its tools; its message matches `refusal` where the token was refused. No client gets an account, and
 * none finds a model that answers.
 */
export const clients = [
  {
    id: "claude-code",
    name: "Claude Code",
    package: "@anthropic-ai/claude-code",
    version: "2.1.330",
    command: "claude",
    script: "@anthropic-ai/claude-code/cli-wrapper.cjs",
    env: { CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1", DISABLE_AUTOUPDATER: "1" },
    refusal: /HTTP 401/,
    check: checkClaudeCode,
  },
  {
    id: "codex",
    name: "Codex",
    package: "@openai/codex",
    version: "0.169.0",
    command: "codex",
    script: "@openai/codex/bin/codex.js",
    env: {},
    refusal: /Auth required/,
    check: checkCodex,
  },
  {
    id: "gemini-cli",
    name: "Gemini CLI",
    package: "@google/gemini-cli",
    version: "0.61.0",
    command: "gemini",
    script: "@google/gemini-cli/bundle/gemini.js",
    // Each of its folders is trusted, as if a person had been asked.
    env: { GEMINI_CLI_TRUST_WORKSPACE: "true" },
    refusal: /- Disconnected/,
    check: checkGemini,
  },
  {
    id: "opencode",
    name: "opencode",
    package: "opencode-ai",
    version: "1.18.33",
    command: "opencode",
    program: `opencode-${process.platform}-${process.arch}/bin/opencode`,
    env: { OPENCODE_DISABLE_AUTOUPDATE: "1" },
    refusal: /needs authentication/,
    check: checkOpencode,
  },
  {
    id: "inspector",
    name: "Inspector",
    package: "@modelcontextprotocol/inspector",
    version: "2.12.0",
    // The command with which the texts have it downloaded.
    command: "npx",
    script: "@modelcontextprotocol/inspector/clients/launcher/build/index.js",
    drops: 2,
    needsNode24: true,
    hasOwnFile: false,
    env: { MCP_AUTO_OPEN_ENABLED: "false", MCP_INSPECTOR_SECRET_STORE: "memory" },
    refusal: /auth_required|Failed/,
    check: checkInspector,
  },
  {
    id: "vs-code",
    name: "VS Code (code-server)",
    package: "code-server",
    version: "4.139.1",
    command: "code-server",
    script: "code-server/out/node/entry.js",
    // The editor itself, whose own packages its installation script would download.
    within: "code-server/lib/vscode",
    needsNode24: true,
    env: {},
    // `code --add-mcp` needs a terminal inside the editor.
    takes: ({ kind }) => kind !== "command",
    // Its user's file is elsewhere than that of the desktop's VS Code.
    scope: ["--project"],
    // It looks for an account that could give it another token.
    refusal: /Using\sdefault\sauth\smetadata/,
    open: openVsCode,
  },
];

async function checkClaudeCode({ run, home, server, tools }) {
  // The answer of a person who is asked about the servers of a project's .mcp.json.
  mkdirSync(join(home, ".claude"), { recursive: true });
  writeFileSync(join(home, ".claude", "settings.json"), JSON.stringify({ enabledMcpjsonServers: [server] }));
  const { said } = await run("claude", ["mcp", "list"]);
  if (!said.includes(`${server}: `) || !said.includes("✔ Connected")) throw new Error(`claude mcp list: ${said}`);

  const account = { ANTHROPIC_API_KEY: "none" };
  const offered = await offeredToModel((url) =>
    run("claude", ["-p", "hello"], { ...account, ANTHROPIC_BASE_URL: url }),
  );
  has(offered, `mcp__${server}__`, tools);
}

async function checkCodex({ start, server, tools, call: [tool, args, text] }) {
  const { listed, called } = await askAppServer(start("codex", ["app-server"]), server, tool, args);
  has(Object.keys(listed), "", tools);
  const said = called.content.map((block) => block.text).join("\n");
  if (said !== text || called.isError) throw new Error(`${tool} gave ${JSON.stringify(called)}`);
}

async function checkGemini({ run, home, server, tools }) {
  const { said } = await run("gemini", ["mcp", "list"]);
  if (!said.includes(`${server}: `) || !said.includes("- Connected")) throw new Error(`gemini mcp list: ${said}`);

  const settings = {
    security: { auth: { selectedType: "gemini-api-key" } },
    privacy: { usageStatisticsEnabled: false },
  };
  mkdirSync(join(home, "work", ".gemini"), { recursive: true });
  writeFileSync(join(home, "work", ".gemini", "settings.json"), JSON.stringify(settings));
  // Without a person, it offers its model only tools that need no confirmation.
  const prompt = ["-p", "hello", "--yolo", "--model", "gemini-3-flash-preview"];
  const account = { GEMINI_API_KEY: "none" };
  const offered = await offeredToModel((url) => run("gemini", prompt, { ...account, GOOGLE_GEMINI_BASE_URL: url }));
  has(offered, `mcp_${server}_`, tools);
}

async function checkOpencode({ run, server }) {
  const { said } = await run("opencode", ["mcp", "list"]);
  const plain = stripVTControlCharacters(said);
  if (!plain.includes(`✓ ${server} connected`)) throw new Error(`opencode mcp list: ${plain}`);
}

/** The text itself was the check: it has listed the tools, or serves the page that connects. */
async function checkInspector({ said, start, copied, tools }) {
  if (copied.text.includes(" --cli "))
    return has(
      [...said.matchAll(/"name": "([^"]+)"/g)].map(([, name]) => name),
      "",
      tools,
    );
  await openInspector(start("sh", ["-c", copied.text]), tools);
}

/** Some clients write `_` for characters that their models' services do not accept in names. */
function has(names, prefix, tools) {
  const plain = (name) => name.replaceAll(/[^A-Za-z0-9]/g, "_");
  const plainNames = new Set(names.map(plain));
  const missing = tools.filter((tool) => !plainNames.has(plain(prefix + tool)));
  if (missing.length > 0) throw new Error(`it has no ${missing.join(", ")}, but ${names.join(", ")}`);
}
