import { type Command, Option } from "commander";
import { AUDIT_KINDS } from "../../audit/audit-entry.ts";
import { OUTCOMES } from "../../audit/filter.ts";
import type { CommandKit, Feature } from "../feature.ts";

/** Search of the audit log: page, API and `berth audit` (docs/audit.md). The core records, whoever reads. */
export const auditFeature: Feature = {
  name: "audit",
  commands,
  open: async ({ audit }) => ({ routes: async () => (await import("./pages.ts")).auditRoutes(audit) }),
};

/** `berth audit` and `berth audit verify`, while Berth serves or not. */
function commands(program: Command, { run, withStore, dataOption }: CommandKit): void {
  const load = () => import("./commands.ts");
  const audit = program
    .command("audit")
    .description("Search the audit log: edits, approvals, secrets, tokens, tenants, logins and calls.")
    .option("--tenant <name>", "only this tenant")
    .addOption(new Option("--kind <kind>", "only this kind").choices(AUDIT_KINDS))
    .option("--server <name>", "only this server")
    .option("--tool <name>", "only calls of tools with this name")
    .option("--principal <id>", "only this token or user, such as token:1a2b3c4d5e")
    .addOption(new Option("--outcome <outcome>", "only records with this outcome").choices(OUTCOMES))
    .option("--since <time>", "time such as 2026-11-22T08:00Z, or age: 30m, 12h, 7d")
    .option("--until <time>", "time or age, as for --since")
    .option("--limit <number>", "maximum number of records, newest first (default: 50)")
    .option("--format <format>", "text, or json with one object per line (default: text on a terminal, else json)")
    .option(...dataOption)
    .action(async (options) => run((await load()).searchAudit(withStore, options)));

  audit
    .command("verify")
    .description("Verify that no record of the log was changed or removed, and print its head.")
    .option("--head <head>", "head printed by an earlier verify, which the log must still contain")
    .option("--json", "print the result as JSON")
    .option(...dataOption)
    // The parent command takes --data, too, before or after the name of this one.
    .action(async (_own, command: Command) => run((await load()).verifyAudit(withStore, command.optsWithGlobals())));
}
