import { execFile } from "node:child_process";
import { printJson } from "../../commands/print.ts";
import { type Config, readConfig } from "../../config.ts";
import { trySandbox } from "../../executor/open-executor.ts";
import { BerthError } from "../../lib/errors.ts";
import { defaultLimits } from "../../limits/limits.ts";
import { thisMachine } from "../../processes/sandbox-obstacle.ts";
import { type Diagnosis, failed, type Machine, type MachineCheck, type Status } from "./finding.ts";
import { checkCgroup, checkData, checkDescriptors, checkNode } from "./host-checks.ts";
import { checkSandbox } from "./sandbox-checks.ts";
import { checkPort, checkProxy, checkStore } from "./serving-checks.ts";

interface DoctorOptions {
  readonly json?: boolean;
  readonly strict?: boolean;
}

const CHECKS: readonly MachineCheck[] = [
  (machine) => [checkNode(machine)],
  checkSandbox,
  checkCgroup,
  checkDescriptors,
  (_machine, config) => checkStore(config),
  checkData,
  async (_machine, config) => [await checkPort(config), await checkProxy(config)],
];

export async function doctor(environment: NodeJS.ProcessEnv, { json, strict }: DoctorOptions): Promise<number> {
  const findings = await examine(hostMachine, environment);
  const status = RANK[Math.max(...findings.map((each) => RANK.indexOf(each.status)))]!;
  if (json) printJson({ status, findings }, 2);
  else for (const finding of findings) printFinding(finding);
  return status === "failed" || (strict && status === "degraded") ? 1 : 0;
}

/** Serially: each trial would disturb the times that others measure. */
export async function examine(machine: Machine, environment: NodeJS.ProcessEnv): Promise<Diagnosis[]> {
  let config: Config;
  try {
    config = readConfig(environment);
  } catch (error) {
    if (!(error instanceof BerthError)) throw error;
    const settings = failed("settings", error.message, "correct the settings (docs/settings.md), and run it again");
    return [settings, checkNode(machine), ...(await checkSandbox(machine, { guests: "auto", limits: defaultLimits }))];
  }
  const findings: Diagnosis[] = [];
  for (const check of CHECKS) findings.push(...(await check(machine, config)));
  return findings;
}

const RANK: readonly Status[] = ["pass", "degraded", "failed"];

function printFinding({ check, status, message, fix }: Diagnosis): void {
  console.log(`${status.padEnd(9)} ${check.padEnd(16)} ${message}`);
  if (fix !== undefined) console.log(`${" ".repeat(10)}fix: ${fix}`);
}

export const hostMachine: Machine = {
  ...thisMachine,
  nodeVersion: process.version,
  uid: process.getuid?.(),
  run: (file, args) =>
    new Promise((resolve) => {
      execFile(file, args, { timeout: 5_000 }, (_error, stdout, stderr) => resolve(stdout + stderr));
    }),
  trySandbox,
};
