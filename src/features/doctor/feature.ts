import type { Command } from "commander";
import type { CommandKit, Feature } from "../feature.ts";

/** `berth doctor`: checks what isolation and serving need on this machine (docs/operations.md). */
export const doctorFeature: Feature = {
  name: "doctor",
  commands,
  open: async () => ({ sandboxHelp: 'Run "berth doctor" on this machine for all findings' }),
};

function commands(program: Command, { run, dataOption, environment }: CommandKit): void {
  program
    .command("doctor")
    .description(
      "MachineCheck what isolation and serving need here, and print fixes. Exit codes: 0 works, 1 failed checks.",
    )
    .option("--strict", "exit with 1 also for degraded checks")
    .option("--json", "print {status, findings} as JSON")
    .option(...dataOption)
    .action(async (options) => run((await import("./doctor.ts")).doctor(environment(options), options)));
}
