import type { Command } from "commander";
import type { CommandKit, Feature } from "../feature.ts";

/** Deletion of unreferenced content: `berth collect`, and regularly while Berth serves (docs/storage.md). */
export const collectionFeature: Feature = {
  name: "collection",
  commands,
  open: async (core) => (core.writable ? { close: (await import("./collecting.ts")).collectRegularly(core) } : {}),
};

function commands(program: Command, { run, withStore, dataOption }: CommandKit): void {
  program
    .command("collect")
    .description("Delete unreferenced packages, content and compiled code; works while Berth runs.")
    .option("--tenant <name>", "only this tenant (default: all)")
    .option("--dry-run", "only report what would be deleted")
    .option("--json", "print the result as JSON")
    .option(...dataOption)
    .action(async (options) => run((await import("./collect.ts")).collect(withStore, options)));
}
