import type { Command } from "commander";
import type { run as Run } from "./run.ts";

const dataOption = ["--data <folder>", "folder of the store (BERTH_DATA, default .berth)"] as const;

/** `berth tenant …` (docs/tenants.md). A running Berth on the same data sees changes within a second. */
export function registerTenantCommands(program: Command, run: typeof Run): void {
  const tenant = program.command("tenant").description("Make, list, suspend, move and delete tenants.");
  const several = (value: string, before: readonly string[] = []): string[] => [...before, value];

  tenant
    .command("create")
    .description("Make a tenant, which is served at /t/<name>.")
    .argument("<name>", "lower-case letters, digits and single hyphens")
    .option("--host <name>", "a host name that stands for it, too; repeat it for several", several)
    .option("--limit <name=number>", "a limit of its own, such as requestsPerSecond=50; repeat it for several", several)
    .option(...dataOption)
    .action(async (name, options) => run((await import("./tenant.ts")).createTenant(name, options)));

  tenant
    .command("limit")
    .description("Set what a tenant may have of what all share, or show it (docs/limits.md).")
    .argument("<name>", "the tenant's name")
    .argument("[limits...]", "such as requestsPerSecond=50; requestsPerSecond= is the default again")
    .option(...dataOption)
    .action(async (name, limits, options) => run((await import("./tenant.ts")).limitTenant(name, limits, options)));

  tenant
    .command("oauth")
    .description("Set whose access tokens a tenant takes, or show it (docs/access.md).")
    .argument("<name>", "the tenant's name")
    .argument("[settings...]", "issuer=<url>, audience=<text>, scopes=<json>; issuer= takes none any more")
    .option(...dataOption)
    .action(async (name, texts, options) =>
      run((await import("./tenant-oauth.ts")).setTenantOauth(name, texts, options)),
    );

  tenant
    .command("list")
    .description("List all tenants.")
    .option("--json", "print them as JSON")
    .option(...dataOption)
    .action(async (options) => run((await import("./tenant.ts")).listTenants(options)));

  tenant
    .command("suspend")
    .description("Serve a tenant no more, and end what runs for it; all that it has is kept.")
    .argument("<name>", "as the list shows it")
    .option(...dataOption)
    .action(async (name, options) => run((await import("./tenant.ts")).setSuspended(name, true, options)));

  tenant
    .command("resume")
    .description("Serve a suspended tenant again.")
    .argument("<name>", "as the list shows it")
    .option(...dataOption)
    .action(async (name, options) => run((await import("./tenant.ts")).setSuspended(name, false, options)));

  tenant
    .command("export")
    .description("Write a tenant into one file, while Berth serves or not; no secrets, tokens and host names.")
    .argument("<name>", "as the list shows it")
    .option("--out <file>", "to write; without it, standard output is")
    .option("--force", "replace the file")
    .option(...dataOption)
    .addHelpText(
      "after",
      examples("berth tenant export acme --out acme.berth", "berth tenant export acme | gzip > acme.berth.gz"),
    )
    .action(async (name, options) => run((await import("./tenant-files.ts")).exportTenant(name, options)));

  tenant
    .command("import")
    .description("Make a tenant of a file that export has written, while Berth serves or not.")
    .argument("<file>", "the file; - is standard input; the folder of a boot image is merged into a tenant")
    .option("--as <name>", "another name than it has in the file")
    .option("--replace", "also a tenant that has something already; its secrets, tokens and host names stay")
    .option("--yes", "do not ask before replacing")
    .option("--programs", "also one whose servers start programs of this machine, which are listed")
    .option("--check", "look at the whole file, and change nothing")
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
    .action(async (file, options) => run((await import("./tenant-files.ts")).importTenantFile(file, options)));

  tenant
    .command("delete")
    .description("Delete a tenant with all that it has; asks for the name again.")
    .argument("<name>", "as the list shows it")
    .option("--yes", "do not ask")
    .option(...dataOption)
    .action(async (name, options) => run((await import("./tenant.ts")).deleteTenant(name, options)));
}

function examples(...lines: readonly string[]): string {
  return ["", "Examples:", ...lines.map((line) => `  ${line}`)].join("\n");
}
