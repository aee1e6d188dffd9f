#!/usr/bin/env node
import { Command } from "commander";
import { run } from "./commands/run.ts";
import { registerUpstreamCommands } from "./commands/upstream/register.ts";
import { packageVersion } from "./config.ts";

/**
 * The commands that reach servers of others, by themselves: the build makes one file of this, dist/berth-mcp.mjs, that
 * runs wherever Node does (J10). So nothing that it imports may know what is hosted here.
 */
const program = new Command("berth-mcp")
  .description("Explores, calls and remembers MCP servers of others. One file of Berth, which hosts them, too.")
  .version(packageVersion())
  .showHelpAfterError()
  .configureHelp({ sortSubcommands: true });

registerUpstreamCommands(program, run);

await program.parseAsync();
