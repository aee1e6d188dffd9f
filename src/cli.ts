#!/usr/bin/env node
import { Command } from "commander";
import { registerAuditCommands } from "./commands/register-audit.ts";
import { registerSecretCommands } from "./commands/register-secret.ts";
import { registerTenantCommands } from "./commands/register-tenant.ts";
import { registerTokenCommands } from "./commands/register-token.ts";
import { run } from "./commands/run.ts";
import { registerUpstreamCommands } from "./commands/upstream/register.ts";
import { packageVersion } from "./config.ts";
import { closeInherited } from "./processes/inherited-descriptors.ts";

closeInherited(process.argv.slice(2));

/**
 * argv → one function per command. Commands are loaded when they are called, so that `serve` never loads a compiler.
 */
const program = new Command("berth")
  .description("Hosts MCP servers that are plain TypeScript functions or shell scripts.")
  .version(packageVersion())
  .showHelpAfterError()
  .configureHelp({ sortSubcommands: true });

program
  .command("serve")
  .description("Serve the boot image over HTTP.")
  .option("--port <number>", "port; 0 lets the system choose (BERTH_PORT, default 7420)")
  .option("--host <address>", "address to bind (BERTH_HOST, default 127.0.0.1)")
  .option("--data <folder>", "folder of the store (BERTH_DATA, default .berth)")
  .option(
    "--image <folder>",
    "folder of the boot image (BERTH_IMAGE_DIR, default: the one that comes with Berth), or a tenant's file, served read-only",
  )
  .option(
    "--as <tenant>",
    "what a tenant's file is served as (default: the tenant that it names, unless it is default)",
  )
  .option("--programs", "also a tenant's file whose servers start programs of this machine, which are listed")
  .option("--readonly", "boot the read-only image: no writes, no shell definitions")
  .action(async (options) => run((await import("./commands/serve.ts")).serve(options)));

program
  .command("stdio")
  .description("Serve one server on standard input and output, for clients that start their servers.")
  .argument("[server]", "name of the server; without it all of them, their tools named server.tool")
  .option("--data <folder>", "folder of the store (BERTH_DATA, default .berth)")
  .option("--image <folder>", "folder of the boot image (BERTH_IMAGE_DIR, default: the one that comes with Berth)")
  .option("--readonly", "boot the read-only image: no writes, no shell definitions")
  .option("--explore", "serve Berth's own server to explore upstreams and save profiles, and no other")
  .option("--no-mcp", "take native calls alone: JSON-RPC methods named server.tool, without a handshake")
  .action(async (server, options) => run((await import("./commands/stdio.ts")).stdio(server, options)));

program
  .command("dev")
  .description("Serve definitions straight from their files, and again whenever they change.")
  .argument("<file...>", ".ts or .sh definitions; each becomes the server of its name")
  .option("--new", "make the files that are not there yet, each a small definition to begin with")
  .option("--strict", "tell type errors as errors")
  .option("--port <number>", "port; 0 lets the system choose (BERTH_PORT, default 7420)")
  .option("--host <address>", "address to bind (BERTH_HOST, default 127.0.0.1)")
  .option("--data <folder>", "folder of a store that keeps every version (default: one that is gone afterwards)")
  .action(async (files, options) => run((await import("./commands/dev.ts")).dev(files, options)));

program
  .command("call")
  .description("Call a tool of a running Berth; its events and its result are written as NDJSON.")
  .argument("<method>", "server.tool")
  .argument("[flags...]", "the tool's arguments: --name value …; without any, one JSON object on standard input")
  .option("--url <address>", "where Berth serves (BERTH_URL, default http://127.0.0.1:7420)")
  .option("--answers <json>", "all answers so far to what the tool asked, by the keys of its questions")
  .allowUnknownOption()
  .addHelpText(
    "after",
    [
      "",
      "What the tool asks is asked at the terminal; without one, the default of a question is its answer.",
      "The outcome envelope in which tools may ask is transitional; see docs/outcomes.md.",
      "",
      "A Berth that asks for a token gets the one in BERTH_TOKEN, or in the file BERTH_TOKEN_FILE.",
      "",
      "Exit codes: 0 done, 1 the tool failed or asks something, 2 it could not be called.",
    ].join("\n"),
  )
  .action(async (method, flags, options) => run((await import("./commands/call.ts")).call(method, flags, options)));

program
  .command("boot")
  .description("Make the boot image from its sources; does nothing when nothing changed.")
  .option("--from <folder>", "folder of sources (default: reference_templates)")
  .option("--out <folder>", "folder of the image (default: boot)")
  .option(
    "--check",
    "change nothing; compile every definition, and exit with 1 when the image is not what the sources give",
  )
  .option("--fresh", "take nothing from the last image: compile every definition again")
  .option("--strict", "make no image while a definition has type errors")
  .option("--if-stale", "take the image's word for what was compiled, and make it only when its sources changed")
  .option("--json", "print what was done as JSON")
  .action(async (options) => run((await import("./commands/boot.ts")).boot(options)));

program
  .command("discover")
  .description("Show the tools that a definition gives, and every problem in it.")
  .argument("<file>", "a .ts or .sh definition")
  .option("--server <name>", "name of the server; a shell definition's tool is named after it")
  .option("--strict", "take type errors for errors: the exit code is then 1")
  .option("--json", "print {tools, problems} as JSON")
  .action(async (file, options) => run((await import("./commands/discover.ts")).discover(file, options)));

const dataOption = ["--data <folder>", "folder of the store (BERTH_DATA, default .berth)"] as const;

program
  .command("backup")
  .description("Copy the store into one file, while Berth serves or not, and verify the copy.")
  .argument("<file>", "to write; not there yet")
  .option(...dataOption)
  .option("--force", "replace the file")
  .action(async (file, options) => run((await import("./commands/backup.ts")).backup(file, options)));

program
  .command("restore")
  .description("Put back a backup, while Berth serves or not; what stood there before is kept.")
  .argument("<file>", "that berth backup has written")
  .option(...dataOption)
  .action(async (file, options) => run((await import("./commands/backup.ts")).restore(file, options)));

registerAuditCommands(program, run);
registerSecretCommands(program, run);
registerTenantCommands(program, run);
registerTokenCommands(program, run);
registerUpstreamCommands(program, run, () => import("./commands/upstream/commands.ts"));

await program.parseAsync();
