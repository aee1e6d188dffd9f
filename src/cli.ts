#!/usr/bin/env node
import cluster from "node:cluster";
import { Command, Option } from "commander";
import { environmentOf, folderToServe } from "./commands/environment.ts";
import { makeConsolePrintable } from "./commands/print.ts";
import { run } from "./commands/run.ts";
import type { ServeOptions } from "./commands/serve.ts";
import { features } from "./compose/features.ts";
import { packageVersion } from "./config.ts";
import type { WithStore } from "./features/feature.ts";
import { closeInherited } from "./processes/inherited-descriptors.ts";

closeInherited(process.argv.slice(2));
makeConsolePrintable();

/**
 * Maps arguments to one function per command. Commands are loaded when called, so `serve` never loads the compiler.
 */
const program = new Command("berth")
  .description("Hosts MCP servers written as TypeScript functions or shell scripts.")
  .version(packageVersion())
  .showHelpAfterError()
  .configureHelp({ sortSubcommands: true });

const fromOption = [
  "--from <folder>",
  "folder of sources (default: the working folder if it lists servers, else the nearest folder with a package.json)",
] as const;
/** `--allow-net` without a host: every public host, over HTTPS and HTTP. */
const ANY_HOST = "*,http://*";
const dataOption = [
  "--data <folder>",
  "folder of the store (BERTH_DATA; default: .berth, or .berth/data in a folder with an mcps.json)",
] as const;
const withStore: WithStore = async (options, work) =>
  (await import("./commands/with-store.ts")).withStore(options, work);

program
  .command("serve")
  .description("Serve the servers of a folder, or a boot image, over HTTP.")
  .argument("[folder]", "folder with an mcps.json (default: the working folder if it has one, else the boot image)")
  .option("--port <number>", "port; 0 selects a free one (BERTH_PORT; default: 7420)")
  .option("--host <address>", "address to bind (BERTH_HOST; default: 127.0.0.1)")
  .option(...dataOption)
  .option(
    "--image <folder>",
    "folder of a boot image (BERTH_IMAGE_DIR; default: Berth's own), or an exported tenant file, served read-only",
  )
  .option(
    "--as <tenant>",
    "tenant name under which to serve an exported file (default: the name in the file, unless that is default)",
  )
  .option("--programs", "accept an exported tenant file whose servers start programs on this machine, and list them")
  .option("--readonly", "use the read-only image: no writes, no shell definitions")
  .option(
    "--workers <number>",
    "number of serving processes, usually one per CPU (BERTH_WORKERS; default: a single process)",
  )
  .action((path, given) => run(serveOnce(path, given)));

program
  .command("stdio")
  .description("Serve one server over standard input and output, for clients that start their servers.")
  .argument("[server]", "name of the server (default: all servers, with tools named server.tool)")
  .option(...dataOption)
  .option("--image <folder>", "folder of the boot image (BERTH_IMAGE_DIR; default: Berth's own)")
  .option("--readonly", "use the read-only image: no writes, no shell definitions")
  .option("--explore", "serve only the built-in server that explores upstreams and saves profiles")
  .option("--no-mcp", "accept only native calls: JSON-RPC methods named server.tool, without a handshake")
  .action(async (server, options) => run((await import("./commands/serve.ts")).stdio(server, options)));

program
  .command("init")
  .description("Create a folder of servers: mcps.json, a definition, and the files that npm, git and editors need.")
  .argument("[folder]", "folder to create, or to add missing files to (default: the working folder)")
  .addHelpText("after", examples("berth init my-servers"))
  .action(async (path) => run((await import("./commands/init.ts")).init(path)));

program
  .command("check")
  .description("Report every problem of a folder's servers. Exit codes: 0 no errors, 1 errors, 2 no such folder.")
  .argument("[folder]", "folder with an mcps.json (default: the working folder)")
  .option("--strict", "treat type errors as errors")
  .option("--json", "print {servers, problems} as JSON")
  .action(async (path, options) => run((await import("./commands/check.ts")).check(path, options)));

program
  .command("dev")
  .description("Serve a folder, or single definitions, from their files, and reload them after each change.")
  .argument("[paths...]", "a folder with an mcps.json (default: the working folder), or single .ts and .sh definitions")
  .option("--new", "create missing files, each with an example definition")
  .option("--strict", "report type errors as errors")
  .option("--open", "open the page of the first server in the browser, to try its tools")
  .option("--quiet", "show only failed calls")
  .option("--json", "print lines of JSON")
  .option("--port <number>", "port; 0 selects a free one (BERTH_PORT; default: 7420)")
  .option("--host <address>", "address to bind (BERTH_HOST; default: 127.0.0.1)")
  .option("--data <folder>", "folder of the store (default: .berth/dev for a folder, a temporary one for files)")
  .option(
    "--env-file <file>",
    "file with lines NAME=value: values of the secrets that tags (@secret NAME) and entries name",
  )
  .addOption(
    new Option(
      "--allow-net [hosts]",
      "hosts to allow in addition to those of tags; without a value: every public host (ports 443 and 80)",
    )
      .preset(ANY_HOST)
      .argParser(several),
  )
  .option("--folder <name=path>", "folder that code may read, as in data=./data; repeatable", several)
  .action(async (paths, options) => run((await import("./commands/dev-paths.ts")).devPaths(paths, options)));

program
  .command("boot")
  .description("Build the boot image if its sources have changed.")
  .option("--from <folder>", "folder of sources (default: reference_templates)")
  .option("--out <folder>", "folder of the image (default: boot)")
  .option("--check", "compile every definition without writing; exit with 1 if the image does not match the sources")
  .option("--fresh", "compile every definition again, without reusing the last image")
  .option("--strict", "fail if a definition has type errors")
  .option("--if-stale", "trust the image's compiled definitions, and build only if the sources have changed")
  .option("--json", "print the result as JSON")
  .action(async (options) => run((await import("./commands/boot.ts")).boot(options)));

program
  .command("discover")
  .description("Show the tools and every problem of a definition.")
  .argument("<file>", "a .ts or .sh definition")
  .option("--server <name>", "name of the server, which is also the tool name of a shell definition")
  .option("--strict", "treat type errors as errors: the exit code is then 1")
  .option("--json", "print {tools, problems} as JSON")
  .action(async (file, options) => run((await import("./commands/discover.ts")).discover(file, options)));

program
  .command("add")
  .description("Add npm packages that definitions may import; their scripts are not run.")
  .argument("<package...>", "package names, optionally with a version: zod, papaparse@5")
  .option(...fromOption)
  .addHelpText("after", examples("berth add zod", "berth add papaparse@5 date-fns"))
  .action(async (specs, options) => run((await import("./commands/add.ts")).add(specs, options)));

program
  .command("remove")
  .description("Remove npm packages and their types.")
  .argument("<package...>", "package names as in package.json")
  .option(...fromOption)
  .action(async (names, options) => run((await import("./commands/add.ts")).remove(names, options)));

program
  .command("backup")
  .description("Copy the store into one file and verify it; works while Berth runs.")
  .argument("[file]", "file to write, which must not exist (not used with Postgres)")
  .option(...dataOption)
  .option("--force", "overwrite the file")
  .action(async (file, options) => run((await import("./commands/backup.ts")).backup(file, options)));

program
  .command("grant")
  .description("List the secrets and hosts that a server requests and its entry does not grant, or grant them.")
  .argument("<server>", "name of the server")
  .option("--all", "grant everything that it requests")
  .option("--secret <name>", "grant this secret; repeatable", several)
  .option("--network <host>", "grant this host, as in the tag; repeatable", several)
  .option("--allow-breaking", "save even if callers may break")
  .option("--tenant <name>", "tenant of the server", "default")
  .option(...dataOption)
  .addHelpText(
    "after",
    examples("berth grant report", "berth grant report --secret API_TOKEN", "berth grant report --all"),
  )
  .action(async (server, options) => run((await import("./commands/grant.ts")).grant(server, options)));

program
  .command("restore")
  .description("Restore a backup; the replaced store is kept. Works while Berth runs.")
  .argument("<file>", "file written by berth backup")
  .option(...dataOption)
  .action(async (file, options) => run((await import("./commands/backup.ts")).restore(file, options)));

program
  .command("migrate")
  .description("Upgrade a Postgres database to this version and boot image, once for all nodes; or copy a store.")
  .option("--image <folder>", "folder of the boot image (BERTH_IMAGE_DIR; default: Berth's own)")
  .option("--from <folder>", "copy the store of this data folder into the database, which must be empty")
  .option("--to <folder>", "copy the store of the database into this data folder, which must not have one")
  .action(async (options) => run((await import("./commands/migrate.ts")).migrate(options)));

/** The supervisor of workers does not load their modules. */
async function serveOnce(path: string | undefined, given: ServeOptions): Promise<number> {
  const options = path === undefined ? given : { ...given, folder: folderToServe(path, given) };
  const isPrimary = cluster.isPrimary && environmentOf(options)["BERTH_WORKERS"] !== undefined;
  if (isPrimary) return (await import("./commands/serve-workers.ts")).serveWithWorkers(options);
  return (await import("./commands/serve.ts")).serve(options);
}

addPackageCommands();
addTenantCommands();
for (const { commands } of features) commands?.(program, { run, withStore, dataOption, environment: environmentOf });
addTokenCommands();

await program.parseAsync();

/**
 * `berth packages …` (docs/packages.md): the npm packages that definitions may import. A running Berth on the same data
 * sees changes within a second.
 */
function addPackageCommands(): void {
  const packages = program
    .command("packages")
    .description("Manage the npm packages that a tenant's definitions import.");
  const load = () => import("./commands/packages.ts");
  const withTenant = (command: Command): Command =>
    command.option("--tenant <name>", "tenant of the packages", "default").option(...dataOption);
  const changing = (command: Command): Command =>
    withTenant(command)
      .option("--review", "only report what would change")
      .option("--allow-breaking", "save even if callers may break");

  withTenant(packages.command("list").description("List packages and the servers that use them."))
    .option("--json", "print them as JSON")
    .action(async (options) => run((await load()).listPackages(options)));

  changing(packages.command("add").description("Add packages, or change their version ranges."))
    .argument("<packages...>", "such as papaparse@^5 (default range: the newest version)")
    .action(async (add: string[], options) =>
      run((await load()).changePackages({ add, remove: [], update: [] }, options)),
    );

  changing(packages.command("remove").description("Remove packages and the dependencies that only they need."))
    .argument("<names...>", "names as listed")
    .action(async (remove: string[], options) =>
      run((await load()).changePackages({ add: [], remove, update: [] }, options)),
    );

  changing(packages.command("update").description("Update packages to the newest versions that their ranges allow."))
    .argument("[names...]", "names as listed (default: all)")
    .action(async (names: string[], options) => {
      const update = names.length > 0 ? names : (true as const);
      await run((await load()).changePackages({ add: [], remove: [], update }, options));
    });

  withTenant(packages.command("history").description("List all earlier sets of packages.")).action(async (options) =>
    run((await load()).packageHistory(options)),
  );

  changing(packages.command("restore").description("Restore an earlier set of packages."))
    .argument("<cid>", "CID as in the history")
    .action(async (cid: string, options) => run((await load()).restorePackages(cid, options)));
}

/** `berth tenant …` (docs/tenants.md). A running Berth on the same data sees changes within a second. */
function addTenantCommands(): void {
  const tenant = program.command("tenant").description("Create, list, suspend, move and delete tenants.");

  tenant
    .command("create")
    .description("Create a tenant, which is served at /t/<name>.")
    .argument("<name>", "lower-case letters, digits and single hyphens")
    .option("--host <name>", "host name of the tenant; repeatable", several)
    .option("--limit <name=number>", "limit of the tenant, such as requestsPerSecond=50; repeatable", several)
    .option(...dataOption)
    .action(async (name, options) => run((await import("./commands/tenant.ts")).createTenant(name, options)));

  tenant
    .command("limit")
    .description("Set a tenant's limits, or show them (docs/settings.md).")
    .argument("<name>", "name of the tenant")
    .argument("[limits...]", "such as requestsPerSecond=50; requestsPerSecond= restores the default")
    .option(...dataOption)
    .action(async (name, limits, options) =>
      run((await import("./commands/tenant.ts")).limitTenant(name, limits, options)),
    );

  tenant
    .command("oauth")
    .description("Set the issuer whose access tokens a tenant accepts, or show it (docs/access.md).")
    .argument("<name>", "name of the tenant")
    .argument("[settings...]", "issuer=<url>, audience=<text>, scopes=<json>; issuer= removes the issuer")
    .option(...dataOption)
    .action(async (name, texts, options) =>
      run((await import("./commands/tenant.ts")).setTenantOauth(name, texts, options)),
    );

  tenant
    .command("list")
    .description("List all tenants.")
    .option("--json", "print them as JSON")
    .option(...dataOption)
    .action(async (options) => run((await import("./commands/tenant.ts")).listTenants(options)));

  tenant
    .command("suspend")
    .description("Stop serving a tenant and end its processes; its data is kept.")
    .argument("<name>", "as listed")
    .option(...dataOption)
    .action(async (name, options) => run((await import("./commands/tenant.ts")).setSuspended(name, true, options)));

  tenant
    .command("resume")
    .description("Serve a suspended tenant again.")
    .argument("<name>", "as listed")
    .option(...dataOption)
    .action(async (name, options) => run((await import("./commands/tenant.ts")).setSuspended(name, false, options)));

  tenant
    .command("delete")
    .description("Delete a tenant and all its data; asks for its name first.")
    .argument("<name>", "as listed")
    .option("--yes", "do not ask for confirmation")
    .option(...dataOption)
    .action(async (name, options) => run((await import("./commands/tenant.ts")).deleteTenant(name, options)));
}

function examples(...lines: readonly string[]): string {
  return ["", "Examples:", ...lines.map((line) => `  ${line}`)].join("\n");
}

/** `berth token create|list|revoke` (docs/access.md). A running Berth on the same data sees changes within a second. */
function addTokenCommands(): void {
  const tenantOption = ["--tenant <name>", "tenant of the tokens", "default"] as const;
  const token = program.command("token").description("Create, list and revoke tokens that identify callers.");

  token
    .command("create")
    .description("Create a token and print it once; only its hash is stored.")
    .option(...tenantOption)
    .option("--name <text>", "description of the token")
    .option("--can <actions>", "permissions: call, read, edit, programs, admin, separated by commas", "call,read")
    .option("--server <name>", "permit only this server; repeatable", several)
    .option("--tool <name>", "permit calls only of tools with this name; repeatable", several)
    .option("--expires <time>", "lifetime, such as 30d, 12h or 45m (default: no expiry)")
    .option("--json", "print its details as JSON")
    .option(...dataOption)
    .action(async (options) => run((await import("./commands/token.ts")).createToken(options)));

  token
    .command("list")
    .description("List tokens with their permissions; the tokens themselves are never shown.")
    .option(...tenantOption)
    .option("--json", "print them as JSON")
    .option(...dataOption)
    .action(async (options) => run((await import("./commands/token.ts")).listTokens(options)));

  token
    .command("revoke")
    .description("Revoke a token; it is refused within a second.")
    .argument("<id>", "as listed")
    .option(...tenantOption)
    .option(...dataOption)
    .action(async (id, options) => run((await import("./commands/token.ts")).revokeToken(id, options)));
}

/** Collects the values of an option that may be repeated. */
function several(value: string, before: readonly string[] = []): string[] {
  return [...before, value];
}
