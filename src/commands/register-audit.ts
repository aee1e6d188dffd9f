import { Option, type Command } from "commander";
import { AUDIT_KINDS } from "../audit/audit-entry.ts";
import { OUTCOMES } from "../audit/filter.ts";
import type { run as Run } from "./run.ts";

const dataOption = ["--data <folder>", "folder of the store (BERTH_DATA, default .berth)"] as const;

/** `berth audit` and `berth audit verify` (docs/audit.md), while Berth serves or not. */
export function registerAuditCommands(program: Command, run: typeof Run): void {
  const audit = program
    .command("audit")
    .description("Show what happened: edits, approvals, secrets, tokens, tenants, who came in, and calls.")
    .option("--tenant <name>", "only of this tenant")
    .addOption(new Option("--kind <kind>", "only of this kind").choices(AUDIT_KINDS))
    .option("--server <name>", "only about this server")
    .option("--tool <name>", "only calls of tools of this name")
    .option("--principal <id>", "only of this token or person, as token:1a2b3c4d5e")
    .addOption(new Option("--outcome <outcome>", "only what ended so").choices(OUTCOMES))
    .option("--since <time>", "such as 2026-11-22T08:00Z, or back from now: 30m, 12h, 7d")
    .option("--until <time>", "likewise")
    .option("--limit <number>", "records to show at most, the newest first (default: 50)")
    .option("--format <format>", "json: one object a line; text (default: text on a terminal, else json)")
    .option(...dataOption)
    .action(async (options) => run((await import("./audit.ts")).searchAudit(options)));

  audit
    .command("verify")
    .description("Check that nothing in the log was changed or taken away; prints its head.")
    .option("--head <head>", "what an earlier verify has printed: it has to be there still")
    .option("--json", "print what was found as JSON")
    .option(...dataOption)
    // The parent command takes --data, too, wherever it stands.
    .action(async (_own, command: Command) => run((await import("./audit.ts")).verifyAudit(command.optsWithGlobals())));
}
