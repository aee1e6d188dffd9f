import type { Isolation } from "./executor.ts";
import type { Command } from "../processes/process-group.ts";

/**
 * How guest code is started: the one difference between the engines. A launcher only words command lines; it starts
 * nothing.
 */
export interface GuestLauncher {
  readonly isolation: Isolation;
  /** A blank guest process; the pipe is its descriptor 3. */
  readonly guest: Command;
  /** One run of a script. `sandboxed`: its text is written to descriptor 3; `trusted`: it stands in `folder`. */
  script(run: ScriptCommand): Command;
}

export interface ScriptCommand {
  readonly interpreter: Interpreter;
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly deadlineMs: number;
  /** Holds the file `script` and the working folder `work`, for this run alone. */
  readonly folder?: string;
}

export type Interpreter = "sh" | "bash";

export interface LauncherLimits {
  readonly guestMemoryMb: number;
  readonly scriptMemoryMb: number;
  readonly scriptDiskMb: number;
  readonly scriptTasks: number;
}

/** The runner's folder, compiled; the only part of Berth that a guest can read. */
export const guestFolder = new URL("./guest/", import.meta.url);

/** The same in every engine, so that a definition that works in one works in the other. */
export const guestEnvironment = { TZ: "UTC", LANG: "C.UTF-8" } as const;

export const scriptEnvironment = { PATH: "/usr/bin:/bin", HOME: "/tmp", TMPDIR: "/tmp", ...guestEnvironment } as const;

/** Node's own flags. `readable` is what the permission model lets the guest read. */
export function nodeFlags(nodeMajor: number, memoryMb: number, readable: string): string[] {
  return [
    `--max-old-space-size=${memoryMb}`,
    "--no-addons",
    "--disable-warning=ExperimentalWarning",
    nodeMajor < 23 ? "--experimental-permission" : "--permission",
    `--allow-fs-read=${readable}`,
  ];
}
