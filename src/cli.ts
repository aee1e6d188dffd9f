#!/usr/bin/env node
import cluster from "node:cluster";
import { Command, Option } from "commander";
import { AUDIT_KINDS } from "./audit/audit-entry.ts";
import { OUTCOMES } from "./audit/filter.ts";
import { environmentOf, folderToServe } from "./commands/environment.ts";
import { makeConsolePrintable } from "./commands/print.ts";
import { run } from "./commands/run.ts";
import type { ServeOptions } from "./commands/serve.ts";
import { registerUpstreamCommands } from "./commands/upstream/register.ts";
import { packageVersion } from "./config.ts";
import { closeInherited } from "./processes/inherited-descriptors.ts";

closeInherited(process.argv.slice(2));
makeConsolePrintable();

/**
 * argv → one function per command. Commands are loaded when they are called, so that `serve` never loads a compiler.
 */
const program = new Command("berth")
  .description("Hosts MCP servers that are plain TypeScript functions or shell scripts.")
  .version(packageVersion())
  .showHelpAfterError()
  .configureHelp({ sortSubcommands: true });

const fromOption = [
  "--from <folder>",
  "folder of sources (default: the one at hand, or the nearest folder with a package.json, or this one)",
] as const;
/** `--allow-net` without a host: every public one, by HTTPS and HTTP. */
const ANY_HOST = "*,http://*";
const dataOption = [
  "--data <folder>",
  "folder of the store (BERTH_DATA, default .berth, and .berth/data in a folder of your own)",
] as const;

program
  .command("serve")
  .description("Serve a folder of your own, or a boot image, over HTTP.")
  .argument("[folder]", "folder with an mcps.json (default: this one if it has one, else the boot image)")
  .option("--port <number>", "port; 0 lets the system choose (BERTH_PORT, default 7420)")
  .option("--host <address>", "address to bind (BERTH_HOST, default 127.0.0.1)")
  .option(...dataOption)
  .option(
    "--image <folder>",
    "folder of the boot image (BERTH_IMAGE_DIR, default: Berth's own), or a tenant's file, served read-only",
  )
  .option(
    "--as <tenant>",
    "name under which to serve a tenant's file (default: the tenant that it names, unless that is default)",
  )
  .option("--programs", "accept a tenant's file whose servers start programs on this machine; lists them")
  .option("--readonly", "boot the read-only image: no writes, no shell definitions")
  .option("--workers <number>", "processes that serve, each on its processor (BERTH_WORKERS; default: this one)")
  .action((path, given) => run(serveOnce(path, given)));

program
  .command("stdio")
  .description("Serve one server on standard input and output, for clients that start their servers.")
  .argument("[server]", "name of the server (default: all of them, with tools named server.tool)")
  .option(...dataOption)
  .option("--image <folder>", "folder of the boot image (BERTH_IMAGE_DIR, default: Berth's own)")
  .option("--readonly", "boot the read-only image: no writes, no shell definitions")
  .option("--explore", "serve only Berth's own server that explores upstreams and saves profiles")
  .option("--no-mcp", "take only native calls: JSON-RPC methods named server.tool, without a handshake")
  .action(async (server, options) => run((await import("./commands/serve.ts")).stdio(server, options)));

program
  .command("init")
  .description("Make a folder of your own: a list of servers, a definition, and what npm, git, editors and CI want.")
  .argument("[folder]", "folder to make, or to add what is missing to (default: this one)")
  .addHelpText("after", examples("npx berth-mcp init my-servers"))
  .action(async (path) => run((await import("./commands/init.ts")).init(path)));

program
  .command("check")
  .description("Show every problem of a folder's servers; writes nothing. Exit codes: 0 no errors, 1 errors.")
  .argument("[folder]", "folder with an mcps.json (default: this one)")
  .option("--strict", "treat type errors as errors")
  .option("--json", "print {servers, problems} as JSON")
  .action(async (path, options) => run((await import("./commands/check.ts")).check(path, options)));

program
  .command("dev")
  .description("Serve a folder of your own, or definitions, straight from the files, and again whenever they change.")
  .argument("[paths...]", "a folder with an mcps.json (default: this one), or .ts and .sh definitions by themselves")
  .option("--new", "create missing files, each with a small definition to start from")
  .option("--strict", "report type errors as errors")
  .option("--open", "open the page of the first server in the browser, where its tools can be tried")
  .option("--quiet", "show of calls only what goes wrong")
  .option("--port <number>", "port; 0 lets the system choose (BERTH_PORT, default 7420)")
  .option("--host <address>", "address to bind (BERTH_HOST, default 127.0.0.1)")
  .option(
    "--data <folder>",
    "folder of a store that keeps every version (default: of a folder .berth/dev; of files a temporary one)",
  )
  .option("--env-file <file>", "values of the secrets that tags (@secret NAME) and entries name: lines NAME=value")
  .addOption(
    new Option("--allow-net [hosts]", "hosts to reach beyond those of tags; without any, every public one (443 and 80)")
      .preset(ANY_HOST)
      .argParser(several),
  )
  .action(async (paths, options) => run((await import("./commands/dev-paths.ts")).devPaths(paths, options)));

program
  .command("call")
  .description("Call a tool of a running Berth, and print what it gives.")
  .argument("<method>", "server.tool")
  .argument("[arguments...]", "name=value, --name value, or JSON; without any, one JSON object on standard input")
  .option("--url <address>", "where Berth serves (BERTH_URL, default http://127.0.0.1:7420)")
  .option("--json", "for programs: write its events and its exact result as NDJSON")
  .option("--answers <json>", "all answers so far to the tool's questions, by their keys")
  .allowUnknownOption()
  .addHelpText(
    "after",
    [
      "",
      "An argument that is named like an option here is given as name=value: url=https://example.com.",
      "The tool's questions are asked at the terminal; without one, the default of a question is its answer.",
      "The outcome envelope in which tools may ask is transitional; see docs/outcomes.md.",
      "",
      "Where Berth requires a token, set BERTH_TOKEN, or name its file in BERTH_TOKEN_FILE.",
      "",
      "Exit codes: 0 done, 1 the tool failed or asks something, 2 it could not be called.",
    ].join("\n"),
  )
  .addHelpText(
    "after",
    examples("berth call hello.greet name=Ada times=2", `berth call hello.greet '{"name":"Ada"}' --json`),
  )
  .action(async (method, words, options) => run((await import("./commands/call.ts")).call(method, words, options)));

program
  .command("connect")
  .description("Add a server to a client's own configuration file, after showing the change; or take it back.")
  .argument("[server]", "name of a server, or the address of its endpoint (default: all servers)")
  .requiredOption("--client <name>", "claude-code, claude-desktop, codex, cursor, gemini-cli, opencode or vs-code")
  .option("--project", "the file of the project in this folder, for all who work on it (default: your own file)")
  .option("--name <name>", "name of the server in the client (default: its own)")
  .option("--url <address>", "where Berth serves (BERTH_URL, default http://127.0.0.1:7420)")
  .option("--remove", "take the server out of the file again")
  .option("--print", "show the change, and make none")
  .option("--yes", "do not ask")
  .addHelpText(
    "after",
    examples(
      "npx berth-mcp connect hello --client claude-code",
      "npx berth-mcp connect hello --client vs-code --project",
      "npx berth-mcp connect https://mcp.example.com/mcp/hello --client codex",
      "npx berth-mcp connect hello --client codex --remove",
    ),
  )
  .action(async (server, options) => run((await import("./commands/connect.ts")).connect(server, options)));

program
  .command("boot")
  .description("Make the boot image from its sources; does nothing if they have not changed.")
  .option("--from <folder>", "folder of sources (default: reference_templates)")
  .option("--out <folder>", "folder of the image (default: boot)")
  .option(
    "--check",
    "change nothing; compile every definition, and exit with 1 if the image does not match the sources",
  )
  .option("--fresh", "reuse nothing of the last image: compile every definition again")
  .option("--strict", "make no image if a definition has type errors")
  .option("--if-stale", "trust the image's compiled definitions, and make the image only if its sources have changed")
  .option("--json", "print the outcome as JSON")
  .action(async (options) => run((await import("./commands/boot.ts")).boot(options)));

program
  .command("discover")
  .description("Show the tools that a definition gives, and every problem in it.")
  .argument("<file>", "a .ts or .sh definition")
  .option("--server <name>", "name of the server; a shell definition's tool is named after it")
  .option("--strict", "treat type errors as errors: the exit code is then 1")
  .option("--json", "print {tools, problems} as JSON")
  .action(async (file, options) => run((await import("./commands/discover.ts")).discover(file, options)));

program
  .command("add")
  .description("Add npm packages that definitions may import; never runs a script of theirs.")
  .argument("<package...>", "names in the registry, each perhaps with a version: zod, papaparse@5")
  .option(...fromOption)
  .addHelpText("after", examples("npx berth-mcp add zod", "npx berth-mcp add papaparse@5 date-fns"))
  .action(async (specs, options) => run((await import("./commands/add.ts")).add(specs, options)));

program
  .command("remove")
  .description("Remove npm packages that berth add added, with their types.")
  .argument("<package...>", "names as package.json has them")
  .option(...fromOption)
  .action(async (names, options) => run((await import("./commands/add.ts")).remove(names, options)));

program
  .command("backup")
  .description("Copy the store into one file and verify the copy; Berth may be running.")
  .argument("[file]", "file to write; must not exist yet (with Postgres: none is needed)")
  .option(...dataOption)
  .option("--force", "replace the file")
  .action(async (file, options) => run((await import("./commands/backup.ts")).backup(file, options)));

program
  .command("grant")
  .description("List what a server's definition requests and its entry does not grant, or grant it.")
  .argument("<server>", "name of the server")
  .option("--all", "grant all that it requests")
  .option("--secret <name>", "grant this secret; repeatable", several)
  .option("--network <host>", "grant this host, as the tag has it; repeatable", several)
  .option("--allow-breaking", "save it even if callers may break")
  .option("--tenant <name>", "whose server", "default")
  .option(...dataOption)
  .addHelpText(
    "after",
    examples("berth grant report", "berth grant report --secret API_TOKEN", "berth grant report --all"),
  )
  .action(async (server, options) => run((await import("./commands/grant.ts")).grant(server, options)));

program
  .command("collect")
  .description("Remove what nothing refers to: packages, content, and compiled code. Berth may be running.")
  .option("--tenant <name>", "only of this tenant (default: all)")
  .option("--dry-run", "only tell what would be removed")
  .option("--json", "print the result as JSON")
  .option(...dataOption)
  .action(async (options) => run((await import("./commands/collect.ts")).collect(options)));

program
  .command("restore")
  .description("Restore a backup; keeps the replaced store. Berth may be running.")
  .argument("<file>", "file that berth backup wrote")
  .option(...dataOption)
  .action(async (file, options) => run((await import("./commands/backup.ts")).restore(file, options)));

program
  .command("migrate")
  .description("Bring a Postgres database to this version and this boot image, once for all nodes; or copy a store.")
  .option("--image <folder>", "folder of the boot image (BERTH_IMAGE_DIR, default: Berth's own)")
  .option("--from <folder>", "copy the store of this data folder into the database, which must be empty")
  .option("--to <folder>", "copy the store of the database into this data folder, where none may be")
  .action(async (options) => run((await import("./commands/migrate.ts")).migrate(options)));

/** The process that supervises workers loads nothing of what they need. */
async function serveOnce(path: string | undefined, given: ServeOptions): Promise<number> {
  const options = path === undefined ? given : { ...given, folder: folderToServe(path, given) };
  const isPrimary = cluster.isPrimary && environmentOf(options)["BERTH_WORKERS"] !== undefined;
  if (isPrimary) return (await import("./commands/serve-workers.ts")).serveWithWorkers(options);
  return (await import("./commands/serve.ts")).serve(options);
}

addAuditCommands();
addPackageCommands();
addSecretCommands();
addStateCommands();
addTenantCommands();
addTokenCommands();
registerUpstreamCommands(program, () => import("./commands/upstream/pipes.ts"));

await program.parseAsync();

/** `berth audit` and `berth audit verify` (docs/audit.md), while Berth serves or not. */
function addAuditCommands(): void {
  const audit = program
    .command("audit")
    .description("Show what happened: edits, approvals, secrets, tokens, tenants, sign-ins, and calls.")
    .option("--tenant <name>", "only of this tenant")
    .addOption(new Option("--kind <kind>", "only of this kind").choices(AUDIT_KINDS))
    .option("--server <name>", "only about this server")
    .option("--tool <name>", "only calls of tools with this name")
    .option("--principal <id>", "only of this token or person, as token:1a2b3c4d5e")
    .addOption(new Option("--outcome <outcome>", "only records with this outcome").choices(OUTCOMES))
    .option("--since <time>", "such as 2026-11-22T08:00Z, or back from now: 30m, 12h, 7d")
    .option("--until <time>", "likewise")
    .option("--limit <number>", "records to show at most, the newest first (default: 50)")
    .option("--format <format>", "json: one object a line; text (default: text on a terminal, else json)")
    .option(...dataOption)
    .action(async (options) => run((await import("./commands/audit.ts")).searchAudit(options)));

  audit
    .command("verify")
    .description("Check that nothing in the log was changed or removed; prints its head.")
    .option("--head <head>", "head that an earlier verify printed: the log must still hold it")
    .option("--json", "print the result as JSON")
    .option(...dataOption)
    // The parent command takes --data, too, wherever it stands.
    .action(async (_own, command: Command) =>
      run((await import("./commands/audit.ts")).verifyAudit(command.optsWithGlobals())),
    );
}

/**
 * `berth packages …` (docs/packages.md): the npm packages that definitions may import. A running Berth on the same data
 * sees changes within a second.
 */
function addPackageCommands(): void {
  const packages = program
    .command("packages")
    .description("Change the npm packages that definitions of a tenant import.");
  const load = () => import("./commands/packages.ts");
  const withTenant = (command: Command): Command =>
    command.option("--tenant <name>", "whose packages", "default").option(...dataOption);
  const changing = (command: Command): Command =>
    withTenant(command)
      .option("--review", "only tell what it would change")
      .option("--allow-breaking", "save it even if callers may break");

  withTenant(packages.command("list").description("List the packages, and the servers that use them."))
    .option("--json", "print them as JSON")
    .action(async (options) => run((await load()).listPackages(options)));

  changing(packages.command("add").description("Add packages, or give them other ranges."))
    .argument("<packages...>", "such as papaparse@^5; without a range, the newest version")
    .action(async (add: string[], options) =>
      run((await load()).changePackages({ add, remove: [], update: [] }, options)),
    );

  changing(packages.command("remove").description("Remove packages, and what only they need."))
    .argument("<names...>", "as the list shows them")
    .action(async (remove: string[], options) =>
      run((await load()).changePackages({ add: [], remove, update: [] }, options)),
    );

  changing(packages.command("update").description("Give packages the newest versions that their ranges allow."))
    .argument("[names...]", "as the list shows them (default: all)")
    .action(async (names: string[], options) => {
      const update = names.length > 0 ? names : (true as const);
      await run((await load()).changePackages({ add: [], remove: [], update }, options));
    });

  withTenant(packages.command("history").description("List every set of packages that there was.")).action(
    async (options) => run((await load()).packageHistory(options)),
  );

  changing(packages.command("restore").description("Go back to an earlier set of packages."))
    .argument("<cid>", "as the history shows it")
    .action(async (cid: string, options) => run((await load()).restorePackages(cid, options)));
}

/**
 * `berth secret set|list|delete|rotate` (docs/secrets.md). A running Berth on the same data sees changes within a
 * second.
 */
function addSecretCommands(): void {
  const tenantOption = ["--tenant <name>", "whose secrets", "default"] as const;
  const secret = program.command("secret").description("Keep values that servers need and nobody may see.");

  secret
    .command("set")
    .description("Set a secret; its value is typed without echo, or read from standard input.")
    .argument("<name>", "as entries of mcps declare it: API_TOKEN")
    .option(...tenantOption)
    .option(...dataOption)
    .action(async (name, options) => run((await import("./commands/secret.ts")).setSecret(name, options)));

  secret
    .command("list")
    .description("List secrets, when they were changed, and which servers declare them; values are never shown.")
    .option(...tenantOption)
    .option(...dataOption)
    .option("--json", "print them as JSON")
    .action(async (options) => run((await import("./commands/secret.ts")).listSecrets(options)));

  secret
    .command("delete")
    .description("Delete a secret.")
    .argument("<name>")
    .option(...tenantOption)
    .option(...dataOption)
    .action(async (name, options) => run((await import("./commands/secret.ts")).deleteSecret(name, options)));

  secret
    .command("rotate")
    .description("Seal all secrets of all tenants with another key, while Berth runs.")
    .option(...dataOption)
    .action(async (options) => run((await import("./commands/secret.ts")).rotateSecrets(options)));
}

/** `berth state list|get|set|delete` (docs/state.md), while Berth serves or not. */
function addStateCommands(): void {
  const tenantOption = ["--tenant <name>", "whose state", "default"] as const;
  const state = program.command("state").description("Look at what servers keep between calls, and change it.");
  const load = () => import("./commands/state.ts");

  state
    .command("list")
    .description("List the servers that keep something, or the keys of one.")
    .argument("[server]")
    .option("--prefix <text>", "only keys that begin with this")
    .option(...tenantOption)
    .option(...dataOption)
    .action(async (server, options) => run((await load()).listState(server, options)));

  state
    .command("get")
    .description("Print the value under a key.")
    .argument("<server>")
    .argument("<key>")
    .option(...tenantOption)
    .option(...dataOption)
    .action(async (server, key, options) => run((await load()).getState(server, key, options)));

  state
    .command("set")
    .description("Set the value under a key; it is read from standard input, as JSON.")
    .argument("<server>")
    .argument("<key>")
    .option("--bytes", "keep it as bytes, whatever they are")
    .option(...tenantOption)
    .option(...dataOption)
    .action(async (server, key, options) => run((await load()).setState(server, key, options)));

  state
    .command("delete")
    .description("Delete a key.")
    .argument("<server>")
    .argument("[key]")
    .option("--all", "delete all that the server keeps")
    .option(...tenantOption)
    .option(...dataOption)
    .action(async (server, key, options) => run((await load()).deleteState(server, key, options)));
}

/** `berth tenant …` (docs/tenants.md). A running Berth on the same data sees changes within a second. */
function addTenantCommands(): void {
  const tenant = program.command("tenant").description("Make, list, suspend, move and delete tenants.");

  tenant
    .command("create")
    .description("Make a tenant, which is served at /t/<name>.")
    .argument("<name>", "lower-case letters, digits and single hyphens")
    .option("--host <name>", "a host name for it; repeatable", several)
    .option("--limit <name=number>", "a limit of its own, such as requestsPerSecond=50; repeatable", several)
    .option(...dataOption)
    .action(async (name, options) => run((await import("./commands/tenant.ts")).createTenant(name, options)));

  tenant
    .command("limit")
    .description("Set a tenant's limits, or show them (docs/limits.md).")
    .argument("<name>", "the tenant's name")
    .argument("[limits...]", "such as requestsPerSecond=50; requestsPerSecond= restores the default")
    .option(...dataOption)
    .action(async (name, limits, options) =>
      run((await import("./commands/tenant.ts")).limitTenant(name, limits, options)),
    );

  tenant
    .command("oauth")
    .description("Set the issuer whose access tokens a tenant accepts, or show it (docs/access.md).")
    .argument("<name>", "the tenant's name")
    .argument("[settings...]", "issuer=<url>, audience=<text>, scopes=<json>; issuer= stops accepting any")
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
    .description("Stop serving a tenant, and end its processes; keeps all that it has.")
    .argument("<name>", "as the list shows it")
    .option(...dataOption)
    .action(async (name, options) => run((await import("./commands/tenant.ts")).setSuspended(name, true, options)));

  tenant
    .command("resume")
    .description("Serve a suspended tenant again.")
    .argument("<name>", "as the list shows it")
    .option(...dataOption)
    .action(async (name, options) => run((await import("./commands/tenant.ts")).setSuspended(name, false, options)));

  tenant
    .command("export")
    .description("Write a tenant into one file, without secrets, tokens and host names; Berth may be running.")
    .argument("<name>", "as the list shows it")
    .option("--out <file>", "file to write (default: standard output)")
    .option("--force", "replace the file")
    .option(...dataOption)
    .addHelpText(
      "after",
      examples("berth tenant export acme --out acme.berth", "berth tenant export acme | gzip > acme.berth.gz"),
    )
    .action(async (name, options) => run((await import("./commands/tenant.ts")).exportTenant(name, options)));

  tenant
    .command("import")
    .description("Make a tenant from an exported file; Berth may be running.")
    .argument("<file>", "the file; - for standard input; the folder of a boot image is merged into a tenant")
    .option("--as <name>", "name of the tenant, instead of the one in the file")
    .option("--replace", "replace a tenant that has something already; its secrets, tokens and host names stay")
    .option("--yes", "do not ask before replacing")
    .option("--programs", "accept servers that start programs on this machine; lists them")
    .option("--check", "check the whole file, and change nothing")
    .option(...dataOption)
    .addHelpText(
      "after",
      examples(
        "berth tenant import acme.berth",
        "berth tenant import acme.berth --as acme-next",
        "gunzip -c acme.berth.gz | berth tenant import - --replace --yes",
        "berth tenant import boot --as acme",
      ),
    )
    .action(async (file, options) => run((await import("./commands/tenant.ts")).importTenantFile(file, options)));

  tenant
    .command("delete")
    .description("Delete a tenant with all that it has; asks for its name first.")
    .argument("<name>", "as the list shows it")
    .option("--yes", "do not ask")
    .option(...dataOption)
    .action(async (name, options) => run((await import("./commands/tenant.ts")).deleteTenant(name, options)));
}

function examples(...lines: readonly string[]): string {
  return ["", "Examples:", ...lines.map((line) => `  ${line}`)].join("\n");
}

/** `berth token create|list|revoke` (docs/access.md). A running Berth on the same data sees changes within a second. */
function addTokenCommands(): void {
  const tenantOption = ["--tenant <name>", "whose tokens", "default"] as const;
  const token = program.command("token").description("Make, list and revoke the tokens that identify callers.");

  token
    .command("create")
    .description("Make a token and print it, once: only its hash is kept.")
    .option(...tenantOption)
    .option("--name <text>", "a name for people")
    .option("--can <actions>", "permissions: call, read, edit, programs, admin, separated by commas", "call,read")
    .option("--server <name>", "only on this server; repeatable", several)
    .option("--tool <name>", "permit calls only to tools of this name; repeatable", several)
    .option("--expires <time>", "time until it expires, such as 30d, 12h or 45m (default: never)")
    .option("--json", "print its details as JSON")
    .option(...dataOption)
    .action(async (options) => run((await import("./commands/token.ts")).createToken(options)));

  token
    .command("list")
    .description("List tokens with what they permit; the tokens themselves are never shown.")
    .option(...tenantOption)
    .option("--json", "print them as JSON")
    .option(...dataOption)
    .action(async (options) => run((await import("./commands/token.ts")).listTokens(options)));

  token
    .command("revoke")
    .description("Revoke a token; its users are refused within a second.")
    .argument("<id>", "as the list shows it")
    .option(...tenantOption)
    .option(...dataOption)
    .action(async (id, options) => run((await import("./commands/token.ts")).revokeToken(id, options)));
}

/** Collects the values of an option that may be repeated. */
function several(value: string, before: readonly string[] = []): string[] {
  return [...before, value];
}
