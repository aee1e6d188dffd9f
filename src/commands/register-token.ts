import type { Command } from "commander";
import type { run as Run } from "./run.ts";

const tenantOption = ["--tenant <name>", "whose tokens", "default"] as const;
const dataOption = ["--data <folder>", "folder of the store (BERTH_DATA, default .berth)"] as const;

/** `berth token create|list|revoke` (docs/access.md). A running Berth on the same data sees changes within a second. */
export function registerTokenCommands(program: Command, run: typeof Run): void {
  const token = program.command("token").description("Make, list and revoke the tokens by which callers are known.");
  const several = (value: string, before: readonly string[] = []): string[] => [...before, value];

  token
    .command("create")
    .description("Make a token and print it, once: only its hash is kept.")
    .option(...tenantOption)
    .option("--name <text>", "what people call it")
    .option("--can <actions>", "some of call, read, edit, programs, admin, separated by commas", "call,read")
    .option("--server <name>", "only on this server; repeat it for several", several)
    .option("--tool <name>", "only tools of this name can be called; repeat it for several", several)
    .option("--expires <time>", "after this time, such as 30d, 12h or 45m (default: never)")
    .option("--json", "print all about it as JSON")
    .option(...dataOption)
    .action(async (options) => run((await import("./token.ts")).createToken(options)));

  token
    .command("list")
    .description("List tokens with what they permit; the tokens themselves nobody can show.")
    .option(...tenantOption)
    .option("--json", "print them as JSON")
    .option(...dataOption)
    .action(async (options) => run((await import("./token.ts")).listTokens(options)));

  token
    .command("revoke")
    .description("End a token; whoever uses it is refused within a second.")
    .argument("<id>", "as the list shows it")
    .option(...tenantOption)
    .option(...dataOption)
    .action(async (id, options) => run((await import("./token.ts")).revokeToken(id, options)));
}
