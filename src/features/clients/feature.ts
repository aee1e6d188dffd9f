import type { Command } from "commander";
import type { CommandKit, Feature } from "../feature.ts";

/** Adding servers to clients: the texts that pages offer for copying, and `berth connect` (docs/clients.md). */
export const clientsFeature: Feature = {
  name: "clients",
  commands,
  open: async () => ({ routes: async () => ({ setups: (await import("./setup.ts")).setupsFor }) }),
};

const EXAMPLES = `
Examples:
  berth connect hello --client claude-code
  berth connect hello --client vs-code --project
  berth connect https://mcp.example.com/mcp/hello --client codex
  berth connect hello --client codex --remove`;

function commands(program: Command, { run }: CommandKit): void {
  program
    .command("connect")
    .description("Add a server to a client's configuration file, or remove it; shows the change and asks first.")
    .argument("[server]", "name of a server, or URL of its endpoint (default: all servers)")
    .requiredOption("--client <name>", "claude-code, claude-desktop, codex, cursor, gemini-cli, opencode or vs-code")
    .option("--project", "change the project's file in this folder (default: your own file)")
    .option("--name <name>", "name of the server in the client (default: the server's name)")
    .option("--url <address>", "address of Berth (BERTH_URL; default: http://127.0.0.1:7420)")
    .option("--remove", "remove the server from the file")
    .option("--print", "show the change without writing it")
    .option("--yes", "do not ask for confirmation")
    .addHelpText("after", EXAMPLES)
    .action(async (server, options) => run((await import("./connect.ts")).connect(server, options)));
}
