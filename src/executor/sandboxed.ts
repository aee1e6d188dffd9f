import { lstatSync, readlinkSync } from "node:fs";
import { fileURLToPath } from "node:url";
import {
  guestEnvironment,
  guestFolder,
  nodeFlags,
  scriptEnvironment,
  type Launcher,
  type LauncherLimits,
  type ScriptCommand,
} from "./launcher.ts";
import type { Command } from "../processes/process-group.ts";

/**
 * Command lines of the sandbox: resource limits (`prlimit`), namespaces with nothing of the host in them (`bwrap`), and
 * Node's permission model as a belt besides. It words them; whether they work on this machine is the probe's business.
 */
export interface SandboxParts {
  readonly bwrap: string;
  readonly prlimit: string;
  readonly node: { readonly file: string; readonly major: number; readonly libraries: readonly string[] };
  /** Whom guests are outside of the sandbox, when not the service's own user; only root can choose. */
  readonly guestUser?: User;
  /** The same for scripts. The kernel does not count root's tasks, so as root no fork bomb would be held. */
  readonly scriptUser?: User;
  /** Whether scripts get a `/proc` of their own; some containers forbid to mount one. */
  readonly proc: boolean;
}

export interface User {
  readonly uid: number;
  readonly gid: number;
}

/** Nobody, inside. */
const INSIDE_ID = "65534";
/** What V8 takes besides its heap: code, new space, buffers. Node 24 reserves writable room for code at its start. */
const DATA_BESIDES_HEAP_MB = { upTo22: 448, from23: 960 };
const OPEN_FILES = 256;
const MEGABYTE = 1024 * 1024;

export function sandboxedLauncher(parts: SandboxParts, limits: LauncherLimits): Launcher {
  return {
    isolation: "sandboxed",
    guest: guestCommand(parts, limits),
    script: (run) => scriptCommand(parts, limits, run),
  };
}

function guestCommand({ bwrap, prlimit, node, guestUser }: SandboxParts, limits: LauncherLimits): Command {
  const besidesHeapMb = node.major < 23 ? DATA_BESIDES_HEAP_MB.upTo22 : DATA_BESIDES_HEAP_MB.from23;
  return {
    file: prlimit,
    args: [
      `--data=${(limits.guestMemoryMb + besidesHeapMb) * MEGABYTE}`,
      `--nofile=${OPEN_FILES}`,
      "--core=0",
      bwrap,
      ...namespaces,
      ...environment(guestEnvironment),
      ...node.libraries.flatMap((library) => readOnly(library, library)),
      ...readOnly(node.file, "/sbx/node"),
      ...readOnly(fileURLToPath(guestFolder), "/sbx/guest"),
      ...words("--remount-ro / --chdir / --"),
      "/sbx/node",
      ...nodeFlags(node.major, limits.guestMemoryMb, "/sbx/*"),
      "/sbx/guest/runner.mjs",
    ],
    ...outside(guestUser),
  };
}

function scriptCommand(
  { bwrap, prlimit, scriptUser, proc }: SandboxParts,
  limits: LauncherLimits,
  { interpreter, argv, env, deadlineMs }: ScriptCommand,
): Command {
  return {
    file: bwrap,
    args: [
      ...namespaces,
      ...environment(scriptEnvironment),
      ...words("--args 4"),
      ...systemFolders(),
      ...["null", "zero", "random", "urandom"].flatMap((name) => ["--dev-bind", `/dev/${name}`, `/dev/${name}`]),
      ...(proc ? words("--proc /proc --symlink /proc/self/fd /dev/fd") : []),
      ...words("--ro-bind-data 3 /sbx/script"),
      ...words(`--perms 1777 --size ${limits.scriptDiskMb * MEGABYTE} --tmpfs /tmp`),
      ...words("--remount-ro / --chdir /tmp --"),
      // Inside, where the sandbox has a count of tasks of its own; outside, all sandboxes of one user share theirs.
      prlimit,
      `--nproc=${limits.scriptTasks}`,
      `--as=${limits.scriptMemoryMb * MEGABYTE}`,
      `--fsize=${limits.scriptDiskMb * MEGABYTE}`,
      `--cpu=${Math.ceil(deadlineMs / 1000) + 1}`,
      `--nofile=${OPEN_FILES}`,
      "--core=0",
      "--",
      `/bin/${interpreter}`,
      "/sbx/script",
      ...argv,
    ],
    hiddenArgs: environment(env),
    ...outside(scriptUser),
  };
}

/** No session of their own: they lead one already, without a terminal, and what it gives way counts for all in it. */
const namespaces = words(
  "--unshare-user --unshare-all --disable-userns --die-with-parent " +
    `--cap-drop ALL --uid ${INSIDE_ID} --gid ${INSIDE_ID} --clearenv`,
);

function outside(user: User | undefined): Pick<Command, "env" | "cwd" | "uid" | "gid"> {
  return { env: {}, cwd: "/", ...user };
}

/** Texts without a space in any of them. */
function words(text: string): string[] {
  return text.split(" ");
}

function readOnly(source: string, target: string): string[] {
  return ["--ro-bind", source, target];
}

function environment(variables: Readonly<Record<string, string>>): string[] {
  return Object.entries(variables).flatMap(([name, value]) => ["--setenv", name, value]);
}

/** The programs of the machine, read-only, with the links that stand at the root on merged systems. */
function systemFolders(): string[] {
  const folders = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/alternatives"];
  return folders.flatMap((folder) => {
    const stat = lstatSync(folder, { throwIfNoEntry: false });
    if (!stat) return [];
    return stat.isSymbolicLink() ? ["--symlink", readlinkSync(folder), folder] : readOnly(folder, folder);
  });
}
