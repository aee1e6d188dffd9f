import { Command } from "commander";
import { packageVersion } from "../../config.ts";
import { run } from "../run.ts";
import * as commands from "./commands.ts";
import { registerUpstreamCommands } from "./register.ts";

/** The commands that reach upstreams, and no others. */
export function reachingProgram(name: string): Command {
  const program = new Command(name)
    .description(
      "Explores, calls and remembers upstreams (other MCP servers). One file of Berth, which hosts them, too.",
    )
    .version(packageVersion())
    .showHelpAfterError()
    .configureHelp({ sortSubcommands: true });
  registerUpstreamCommands(program, run, () => Promise.resolve(commands));
  return program;
}
