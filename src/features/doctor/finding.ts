import type { Config } from "../../config.ts";
import type { Limits } from "../../limits/limits.ts";
import type { MachineView } from "../../processes/sandbox-obstacle.ts";
import type { NoSandbox } from "../../processes/sandbox.ts";

/** `degraded`: Berth serves, with less isolation, speed or safety than it could have here. */
export type Status = "pass" | "degraded" | "failed";

export interface Diagnosis {
  readonly check: string;
  readonly status: Status;
  readonly message: string;
  /** The command, setting or file that fixes it on this machine. */
  readonly fix?: string;
}

/** The part of this machine that the checks see. */
export interface Machine extends MachineView {
  readonly nodeVersion: string;
  /** Undefined where there are no users. */
  readonly uid: number | undefined;
  /** The output of a program; "" if it cannot be started. */
  run(file: string, args: readonly string[]): Promise<string>;
  /** Runs a guest and a script in the sandbox. */
  trySandbox(limits: Limits): Promise<{ readonly lacks?: string } | NoSandbox>;
}

export type MachineCheck = (machine: Machine, config: Config) => Promise<Diagnosis[]> | Diagnosis[];

export const pass = (check: string, message: string): Diagnosis => ({ check, status: "pass", message });

const faulty =
  (status: Status) =>
  (check: string, message: string, fix: string): Diagnosis => ({ check, status, message, fix });

export const degraded = faulty("degraded");
export const failed = faulty("failed");
