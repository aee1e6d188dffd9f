import { fileURLToPath } from "node:url";
import type { Command } from "../processes/process-group.ts";
import {
  dataBesidesHeapMb,
  readOnly,
  sandboxCommand,
  systemFolders,
  words,
  type SandboxTools,
  type User,
  noHigherThanOwn,
} from "../processes/sandbox.ts";
import {
  guestEnvironment,
  guestFolder,
  nodeFlags,
  scriptEnvironment,
  type GuestLauncher,
  type LauncherLimits,
  type ScriptCommand,
} from "./launcher.ts";

/**
 * Defines what guests and scripts see and may use in the sandbox, with Node's permission model as an extra safeguard.
 * It words command lines; whether they work on this machine is the probe's business.
 */
export interface SandboxParts extends SandboxTools {
  readonly node: { readonly file: string; readonly major: number; readonly libraries: readonly string[] };
  readonly guestUser?: User;
  /** The kernel does not count root's tasks, so a fork bomb would not be stopped for root. */
  readonly scriptUser?: User;
  /** False where scripts get no `/proc` of their own, because the container forbids mounting one. */
  readonly proc: boolean;
}

const OPEN_FILES = 256;
const MEGABYTE = 1024 * 1024;

export function sandboxedLauncher(parts: SandboxParts, limits: LauncherLimits): GuestLauncher {
  return {
    isolation: "sandboxed",
    guest: guestCommand(parts, limits),
    script: (run) => scriptCommand(parts, limits, run),
  };
}

function guestCommand(parts: SandboxParts, limits: LauncherLimits): Command {
  const { node, guestUser } = parts;
  const dataMb = limits.guestMemoryMb + dataBesidesHeapMb(node.major);
  return sandboxCommand(parts, {
    limits: [`--data=${dataMb * MEGABYTE}`, `--nofile=${OPEN_FILES}`, "--core=0"],
    env: guestEnvironment,
    sees: [
      ...node.libraries.flatMap((library) => readOnly(library)),
      ...readOnly(node.file, "/sbx/node"),
      ...readOnly(fileURLToPath(guestFolder), "/sbx/guest"),
    ],
    folder: "/",
    argv: ["/sbx/node", ...nodeFlags(node.major, limits.guestMemoryMb, "/sbx/*"), "/sbx/guest/runner.mjs"],
    ...(guestUser && { user: guestUser }),
  });
}

function scriptCommand(
  parts: SandboxParts,
  limits: LauncherLimits,
  { interpreter, argv, env, deadlineMs }: ScriptCommand,
): Command {
  const { prlimit, scriptUser, proc } = parts;
  return sandboxCommand(parts, {
    env: scriptEnvironment,
    hiddenEnv: env,
    sees: [
      ...systemFolders(),
      ...["null", "zero", "random", "urandom"].flatMap((name) => ["--dev-bind", `/dev/${name}`, `/dev/${name}`]),
      ...(proc ? words("--proc /proc --symlink /proc/self/fd /dev/fd") : []),
      ...words("--ro-bind-data 3 /sbx/script"),
      ...words(`--perms 1777 --size ${limits.scriptDiskMb * MEGABYTE} --tmpfs /tmp`),
    ],
    folder: "/tmp",
    argv: [
      // Inside, where the sandbox counts its own tasks; outside, all sandboxes of one user share one count.
      prlimit,
      ...[
        `--nproc=${limits.scriptTasks}`,
        `--as=${limits.scriptMemoryMb * MEGABYTE}`,
        `--fsize=${limits.scriptDiskMb * MEGABYTE}`,
        `--cpu=${Math.ceil(deadlineMs / 1000) + 1}`,
        `--nofile=${OPEN_FILES}`,
        "--core=0",
      ].map(noHigherThanOwn),
      "--",
      `/bin/${interpreter}`,
      "/sbx/script",
      ...argv,
    ],
    localSockets: true,
    ...(scriptUser && { user: scriptUser }),
  });
}
