import { type Command } from "commander";
import type { CommandKit, Feature } from "../feature.ts";

/** `berth import`, and the box on the page of a new server, for the files of MCP clients (docs/import.md). */
export const importFeature: Feature = {
  name: "import",
  commands,
  open: async () => ({ routes: async () => (await import("./routes.ts")).importRoutes() }),
};

const EXAMPLES = `
Examples:
  berth import .mcp.json
  berth import --from claude-desktop
  berth import --from cursor --project --rename search=web-search
  berth import settings.json --url https://berth.example.com --yes`;

function commands(program: Command, { run }: CommandKit): void {
  program
    .command("import")
    .description("Import the servers of a client's configuration file; shows the changes and asks first.")
    .argument("[file]", "a file in JSON, JSONC, TOML or YAML, or - for standard input")
    .option(
      "--from <client>",
      "your file of claude-code, claude-desktop, cursor, vscode, codex, gemini, opencode, windsurf, zed or goose",
    )
    .option("--project", "with --from: the project's file in this folder")
    .option("--rename <names...>", "other names of servers, such as search=web-search")
    .option("--url <address>", "import into a running Berth (default: mcps.json and .env in this folder)")
    .option("--yes", "do not ask for confirmation")
    .addHelpText("after", EXAMPLES)
    .action(async (file, options) => run((await import("./import.ts")).importServers(file, options)));
}
