import type { Command } from "commander";
import type { CommandKit, Feature } from "../feature.ts";

/** A tenant as one file: `berth tenant export`, `berth tenant import` and `berth serve --image FILE` (docs/tenants.md). */
export const tenantFilesFeature: Feature = {
  name: "tenant-files",
  commands,
  open: async () => ({}),
  fillFromFile: async (...given) => (await import("./fill.ts")).fillFromFile(...given),
};

const EXPORT_EXAMPLES = `
Examples:
  berth tenant export acme --out acme.berth
  berth tenant export acme | gzip > acme.berth.gz`;

const IMPORT_EXAMPLES = `
Examples:
  berth tenant import acme.berth
  berth tenant import acme.berth --as acme-next
  gunzip -c acme.berth.gz | berth tenant import - --replace --yes
  berth tenant import boot --as acme`;

function commands(program: Command, { run, withStore, dataOption }: CommandKit): void {
  const tenant = program.commands.find((each) => each.name() === "tenant")!;
  const load = () => import("./commands.ts");

  tenant
    .command("export")
    .description("Write a tenant to one file, without secrets, tokens and host names; works while Berth runs.")
    .argument("<name>", "as listed")
    .option("--out <file>", "file to write (default: standard output)")
    .option("--force", "overwrite the file")
    .option(...dataOption)
    .addHelpText("after", EXPORT_EXAMPLES)
    .action(async (name, options) => run((await load()).exportTenant(withStore, name, options)));

  tenant
    .command("import")
    .description("Create a tenant from an exported file; works while Berth runs.")
    .argument("<file>", "exported file, - for standard input, or the folder of a boot image to merge into a tenant")
    .option("--as <name>", "name of the tenant, instead of the one in the file")
    .option("--replace", "replace an existing tenant's data; its secrets, tokens and host names are kept")
    .option("--yes", "do not ask for confirmation")
    .option("--programs", "accept servers that start programs on this machine, and list them")
    .option("--check", "check the whole file without changing anything")
    .option(...dataOption)
    .addHelpText("after", IMPORT_EXAMPLES)
    .action(async (file, options) => run((await load()).importTenantFile(withStore, file, options)));
}
