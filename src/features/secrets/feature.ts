import type { Command } from "commander";
import type { CommandKit, Feature } from "../feature.ts";

/** Values that servers get by name and nobody reads back: sealed in the store, a page, API and commands (docs/secrets.md). */
export const secretsFeature: Feature = {
  name: "secrets",
  commands,
  async open({ config, store, secrets: { store: sealed, keys, given, changed }, writable, directory }) {
    const [{ openSecrets, withGiven }, { createSecretEdits }, { SecretFiles, withFiles }] = await Promise.all([
      import("./secrets.ts"),
      import("./edits.ts"),
      import("./secret-files.ts"),
    ]);
    const stored = openSecrets(sealed, keys);
    const files = config.secretsDir === undefined ? undefined : await SecretFiles.open(config.secretsDir, changed);
    const outside = files ? withFiles(stored, files) : stored;
    const secrets = given ? withGiven(outside, given) : outside;
    const edits = createSecretEdits({ store, secrets, writable, directory, onChange: changed });
    return {
      secrets,
      routes: async () => (await import("./routes.ts")).secretFeatureRoutes(edits),
      ...(files && { close: () => files.close() }),
    };
  },
};

/**
 * `berth secret set|list|delete|rotate` (docs/secrets.md). A running Berth on the same data sees changes within a
 * second.
 */
function commands(program: Command, { run, dataOption }: CommandKit): void {
  const tenantOption = ["--tenant <name>", "tenant of the secrets", "default"] as const;
  const load = () => import("./commands.ts");
  const secret = program.command("secret").description("Manage secret values for servers; values are never shown.");

  secret
    .command("set")
    .description("Set a secret; the value is typed without echo, or read from standard input.")
    .argument("<name>", "name as declared by entries, such as API_TOKEN")
    .option(...tenantOption)
    .option(...dataOption)
    .action(async (name, options) => run((await load()).setSecret(name, options)));

  secret
    .command("list")
    .description("List secrets, when they changed, and which servers declare them.")
    .option(...tenantOption)
    .option(...dataOption)
    .option("--json", "print them as JSON")
    .action(async (options) => run((await load()).listSecrets(options)));

  secret
    .command("delete")
    .description("Delete a secret.")
    .argument("<name>")
    .option(...tenantOption)
    .option(...dataOption)
    .action(async (name, options) => run((await load()).deleteSecret(name, options)));

  secret
    .command("rotate")
    .description("Encrypt the secrets of all tenants with a new key; works while Berth runs.")
    .option(...dataOption)
    .action(async (options) => run((await load()).rotateSecrets(options)));
}
