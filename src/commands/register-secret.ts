import type { Command } from "commander";
import type { run as Run } from "./run.ts";

const tenantOption = ["--tenant <name>", "whose secrets", "default"] as const;
const dataOption = ["--data <folder>", "folder of the store (BERTH_DATA, default .berth)"] as const;

/**
 * `berth secret set|list|delete|rotate` (docs/secrets.md). A running Berth on the same data sees changes within a
 * second.
 */
export function registerSecretCommands(program: Command, run: typeof Run): void {
  const secret = program.command("secret").description("Keep values that servers need and nobody may see.");

  secret
    .command("set")
    .description("Set a secret; its value is typed without echo, or read from standard input.")
    .argument("<name>", "as entries of mcps declare it: API_TOKEN")
    .option(...tenantOption)
    .option(...dataOption)
    .action(async (name, options) => run((await import("./secret.ts")).setSecret(name, options)));

  secret
    .command("list")
    .description("List secrets with when they were changed and which servers declare them; values are never shown.")
    .option(...tenantOption)
    .option(...dataOption)
    .option("--json", "print them as JSON")
    .action(async (options) => run((await import("./secret.ts")).listSecrets(options)));

  secret
    .command("delete")
    .description("Delete a secret.")
    .argument("<name>")
    .option(...tenantOption)
    .option(...dataOption)
    .action(async (name, options) => run((await import("./secret.ts")).deleteSecret(name, options)));

  secret
    .command("rotate")
    .description("Seal all secrets of all tenants with another key, while Berth runs.")
    .option(...dataOption)
    .action(async (options) => run((await import("./secret.ts")).rotateSecrets(options)));
}
