import { Command } from "commander";
import { run } from "../../../commands/run.ts";
import { packageVersion } from "../../../config.ts";
import * as commands from "./pipes.ts";
import { beginWith } from "./reach.ts";
import { registerUpstreamCommands } from "./register.ts";
import type { Ahead } from "./start-ahead.ts";

/** Runs the commands that reach upstreams; `name` is the program's name. */
export async function runReaching(name: "berth" | "berth-mcp", ahead: Ahead | undefined): Promise<void> {
  beginWith(ahead);
  try {
    await reachingProgram(name).parseAsync();
  } finally {
    await ahead?.drop();
  }
}

/** The commands that reach upstreams, and no others. */
function reachingProgram(name: string): Command {
  const program = new Command(name)
    .description(
      "Explores and calls upstreams (other MCP servers), and saves them as profiles. Part of Berth, which also hosts them.",
    )
    .version(packageVersion())
    .showHelpAfterError()
    .configureHelp({ sortSubcommands: true });
  registerUpstreamCommands(program, run, () => Promise.resolve(commands));
  return program;
}
