import { fileURLToPath } from "node:url";
import type { HostFolder } from "../folders/folders.ts";
import type { Limits } from "../limits/limits.ts";
import { SCRIPT_PATH, type Interpreter } from "../processes/interpreter.ts";
import type { Command } from "../processes/process-group.ts";
import {
  certificateAuthorities,
  readOnlyUnlessSystem,
  nonHeapMb,
  networkCommand,
  capAtOwnLimit,
  readOnly,
  sandboxCommand,
  systemFolders,
  words,
  type SandboxOptions,
  type SandboxTools,
  type User,
} from "../processes/sandbox.ts";
import type { Isolation } from "./executor.ts";
import { ETC, etcFiles, FOLDER_VARIABLE, PROXY, SOCKETS } from "./guest/wire.mts";

/** How guest code is started: the one difference between the engines. A launcher only builds command lines. */
export interface GuestLauncher {
  readonly isolation: Isolation;
  /** The user that guests run as outside the sandbox, if not the service's own. */
  readonly guestUser?: User;
  /** The same for scripts. */
  readonly scriptUser?: User;
  /** The parts that the sandbox lacks here, if it uses the reduced profile. */
  readonly lacks?: string;
  /** Why scripts have no network, if they have none. */
  readonly noScriptNetwork?: string;
  /** A blank guest process; the pipe is its descriptor 3. Its environment contains the paths of its folders. */
  guest(paths?: GuestPaths): Command;
  /** One run of a script. `sandboxed`: its source is written to descriptor 3; `trusted`: it is a file in `folder`. */
  script(run: ScriptCommand): Command;
}

export interface GuestPaths {
  /** An absolute path without symbolic links. Only for `trusted`: the sandbox has its own scratch folder. */
  readonly scratch?: string;
  /** The folder of its egress socket, which the guest sees at `socketsPath`. */
  readonly sockets?: string | undefined;
  readonly folders?: readonly HostFolder[];
}

interface ScriptCommand {
  readonly interpreter: Interpreter;
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly folders?: readonly HostFolder[];
  readonly deadlineMs: number;
  /** The folder of its egress socket. Only for `sandboxed`. */
  readonly sockets?: string;
  /** Contains the file `script` and the working folder `work`, for this run alone. */
  readonly folder?: string;
}

/** The most processes and threads of one run of a script. */
export const SCRIPT_TASKS = 64;

/** The folder of the compiled runner; the only part of Berth that a guest can read. */
const guestFolder = new URL("./guest/", import.meta.url);

/** The same in every engine, so that a definition that works in one works in the other. */
const guestEnvironment = { TZ: "UTC", LANG: "C.UTF-8" } as const;

const scriptEnvironment = { PATH: SCRIPT_PATH, HOME: "/tmp", TMPDIR: "/tmp", ...guestEnvironment } as const;

/** The scratch folder of a sandboxed guest: its working folder, its home, and its temporary folder. */
const SCRATCH = "/tmp";

/** The path of a host folder in the sandbox. */
function toSandboxFolder(folder: HostFolder): HostFolder {
  return { ...folder, path: `/folders/${folder.name}` };
}

/** Environment variables with the path of each folder. */
function folderVariables(folders: readonly HostFolder[]): Readonly<Record<string, string>> {
  return Object.fromEntries(folders.map(({ name, path }) => [`${FOLDER_VARIABLE}${name}`, path]));
}

/**
 * Only the mounted tree is visible: symbolic links in it are resolved within the sandbox, its devices do not work, and
 * setuid programs gain nothing.
 */
function mounts(folders: readonly HostFolder[]): string[] {
  return folders.flatMap((folder) => [
    folder.writable ? "--bind" : "--ro-bind",
    folder.path,
    toSandboxFolder(folder).path,
  ]);
}

/** Node's own flags. The permission model lets the guest read `readable`, and read and write `scratch`. */
function nodeFlags(
  nodeMajor: number,
  memoryMb: number,
  { readable, scratch, folders }: { readable: string; scratch: string; folders: readonly HostFolder[] },
): string[] {
  return [
    `--max-old-space-size=${memoryMb}`,
    "--no-addons",
    // On SIGINT, Node prints the current stack and exits; a report on a signal would wait for the event loop.
    "--trace-sigint",
    "--disable-warning=ExperimentalWarning",
    nodeMajor < 23 ? "--experimental-permission" : "--permission",
    `--allow-fs-read=${readable}`,
    `--allow-fs-read=${scratch}/*`,
    `--allow-fs-write=${scratch}/*`,
    ...folders.map(({ path }) => `--allow-fs-read=${path}/*`),
    ...folders.filter(({ writable }) => writable).map(({ path }) => `--allow-fs-write=${path}/*`),
  ];
}

/** For packages that read the environment, and for Node itself: the folder where a program may write files. */
function scratchVariables(scratch: string): Readonly<Record<string, string>> {
  return { HOME: scratch, TMPDIR: scratch };
}

export interface SandboxParts extends SandboxTools {
  readonly node: { readonly file: string; readonly major: number; readonly libraries: readonly string[] };
  readonly guestUser?: User;
  /** The kernel does not count root's tasks, so it would not stop a fork bomb of root. */
  readonly scriptUser?: User;
  /** False if scripts have no `/proc` of their own, because the container forbids mounting one. */
  readonly proc: boolean;
  /** True if the container forbids writing to `/proc/sys`. */
  readonly isReduced?: boolean;
}

const OPEN_FILES = 256;
const MEGABYTE = 1024 * 1024;

/**
 * Defines what guests and scripts see and may use in the sandbox, with Node's permission model as an extra safeguard.
 * It does not test whether the sandbox works on this machine.
 */
export function sandboxedLauncher(parts: SandboxParts, limits: Limits): GuestLauncher {
  const commandWith = (paths: GuestPaths): Command => guestCommand(parts, limits, paths);
  const [withoutSockets, withSockets] = [commandWith({}), commandWith({ sockets: SOCKETS_OUTSIDE })];
  return {
    isolation: "sandboxed",
    ...(parts.guestUser && { guestUser: parts.guestUser }),
    ...(parts.scriptUser && { scriptUser: parts.scriptUser }),
    ...(parts.scriptUser && !parts.guestUser && { noScriptNetwork: NO_SCRIPT_NETWORK }),
    ...(parts.isReduced && { noScriptNetwork: REDUCED_NETWORK }),
    ...((parts.isReduced || !parts.proc) && { lacks: lackedParts(parts) }),
    guest({ sockets, folders = [] } = {}) {
      if (folders.length > 0) return commandWith({ sockets, folders });
      return sockets === undefined ? withoutSockets : withFolder(withSockets, sockets);
    },
    script: (run) => scriptCommand(parts, limits, run),
  };
}

const NO_SCRIPT_NETWORK =
  "scripts have no network here: the user nobody cannot read Berth's own files, or Node's; move them out of root's home";

const REDUCED_NETWORK =
  "scripts have no network here: /proc/sys is read-only, so the buffers of their sockets cannot be bounded";

function lackedParts({ proc, isReduced }: SandboxParts): string {
  return [
    ...(proc ? [] : ["scripts have no /proc"]),
    ...(isReduced ? ["scripts have no network", "the system call filter alone denies new namespaces"] : []),
  ].join(", ");
}

/** Placeholder for the folder in a command line that is otherwise the same for all guests. */
const SOCKETS_OUTSIDE = "\0sockets";

function withFolder(command: Command, folder: string): Command {
  return { ...command, args: command.args.map((each) => (each === SOCKETS_OUTSIDE ? folder : each)) };
}

/** The folder of the egress socket, as a guest sees it. */
export function socketsPath(isolation: Isolation, folder: string): string {
  return isolation === "sandboxed" ? SOCKETS : folder;
}

function guestCommand(
  parts: SandboxParts,
  limits: Limits,
  { sockets, folders: hostFolders = [] }: GuestPaths,
): Command {
  const { node, guestUser, isReduced = false } = parts;
  const folders = hostFolders.map(toSandboxFolder);
  const flags = nodeFlags(node.major, limits.guestMemoryMb, { readable: "/sbx/*", scratch: SCRATCH, folders });
  const dataMb = limits.guestMemoryMb + nonHeapMb(node.major);
  return sandboxCommand(parts, {
    limits: [`--data=${dataMb * MEGABYTE}`, `--nofile=${OPEN_FILES}`, "--core=0"],
    env: { ...guestEnvironment, ...scratchVariables(SCRATCH), ...folderVariables(folders) },
    sees: [
      ...node.libraries.flatMap((library) => readOnly(library)),
      ...readOnly(node.file, "/sbx/node"),
      ...readOnly(fileURLToPath(guestFolder), "/sbx/guest"),
      // In memory, and freed with the process.
      ...words(`--perms 0700 --size ${limits.guestDiskMb * MEGABYTE} --tmpfs ${SCRATCH}`),
      ...mounts(hostFolders),
      ...(sockets === undefined ? [] : readOnly(sockets, SOCKETS)),
    ],
    folder: SCRATCH,
    // A program of the host may listen on a socket in a folder, so guests without a network get no sockets.
    sockets: sockets === undefined ? "none" : "out",
    argv: ["/sbx/node", ...flags, "/sbx/guest/runner.mjs"],
    isReduced,
    ...(guestUser && { user: guestUser }),
  });
}

function scriptCommand(
  parts: SandboxParts,
  limits: Limits,
  { interpreter, argv, env, folders = [], deadlineMs, sockets }: ScriptCommand,
): Command {
  const { prlimit, scriptUser, proc, isReduced = false } = parts;
  const connects = sockets !== undefined;
  const confined: SandboxOptions = {
    env: { ...scriptEnvironment, ...folderVariables(folders.map(toSandboxFolder)), ...(connects && proxyEnvironment) },
    hiddenEnv: env,
    sees: [
      ...systemFolders(),
      ...devices,
      ...(proc ? words("--proc /proc --symlink /proc/self/fd /dev/fd") : []),
      ...words("--ro-bind-data 3 /sbx/script"),
      ...words(`--perms 1777 --size ${limits.scriptDiskMb * MEGABYTE} --tmpfs /tmp`),
      ...(connects
        ? [...certificateAuthorities(), ...etcFiles.flatMap((name) => readOnly(`${ETC}/${name}`, `/etc/${name}`))]
        : []),
      ...mounts(connects ? folders.map(toSandboxFolder) : folders),
    ],
    folder: "/tmp",
    argv: [
      // Set inside, where the sandbox counts its own tasks; outside, all sandboxes of one user share one count.
      prlimit,
      ...[
        `--nproc=${SCRIPT_TASKS}`,
        `--as=${limits.scriptMemoryMb * MEGABYTE}`,
        `--fsize=${limits.scriptDiskMb * MEGABYTE}`,
        `--cpu=${Math.ceil(deadlineMs / 1000) + 1}`,
        `--nofile=${OPEN_FILES}`,
        "--core=0",
      ].map(capAtOwnLimit),
      "--",
      interpreter.file,
      ...interpreter.args,
      "/sbx/script",
      ...argv,
    ],
    sharesNetwork: connects,
    isReduced,
    // A program of the host may listen on a socket in the folder.
    sockets: folders.length === 0 ? (connects ? "local and tcp" : "local") : connects ? "tcp" : "none",
    ...(scriptUser && { user: scriptUser }),
  };
  const script = sandboxCommand(parts, confined);
  return connects ? { ...script, ...forwarderCommand(parts, script, folders, sockets) } : script;
}

/** Starts `script` in a network namespace whose only egress is a process next to it (`guest/forwarder.mts`). */
function forwarderCommand(
  parts: SandboxParts,
  script: Command,
  folders: readonly HostFolder[],
  sockets: string,
): Command {
  const { node, bwrap, scriptUser } = parts;
  return networkCommand(parts, {
    limits: [`--nofile=${FORWARDER_FILES}`, "--core=0"],
    sees: [
      ...systemFolders(),
      ...devices,
      ...certificateAuthorities(),
      ...[...node.libraries, bwrap].flatMap(readOnlyUnlessSystem),
      ...readOnly(node.file, "/sbx/node"),
      ...readOnly(fileURLToPath(guestFolder), "/sbx/guest"),
      ...readOnly(sockets, SOCKETS),
      // Includes the settings of its network. The script's own can only be mounted if nothing covers a part of it.
      ...words("--bind /proc /proc"),
      ...words(`--size ${ETC_MB * MEGABYTE} --tmpfs ${ETC} --dir ${SCRATCH}`),
      ...mounts(folders),
    ],
    argv: ["/sbx/node", ...words(FORWARDER_FLAGS), "/sbx/guest/forwarder.mjs", script.file, ...script.args],
    ...(scriptUser && { user: scriptUser }),
  });
}

const devices = [
  ...["null", "full", "random", "urandom"].map((name) => [name, name]),
  // Reads like /dev/zero but cannot be mapped: a shared mapping of /dev/zero is memory that counts to no process.
  ["full", "zero"],
].flatMap(([device, name]) => ["--dev-bind", `/dev/${device}`, `/dev/${name}`]);

/** Fits all names that it assigns addresses to. */
const ETC_MB = 4;
/** It relays bytes, with three descriptors for each connection. */
const FORWARDER_FILES = 1_024;
/** Each run waits for its start. Flags about the heap would take a third of that: Node then recompiles its own code. */
const FORWARDER_FLAGS = "--v8-pool-size=1 --no-addons";

/** Through the proxy, programs learn why a host is refused, and reach hosts that are listed by address. */
const proxyEnvironment = Object.fromEntries([
  ...["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"].map((name) => [
    name,
    `http://${PROXY.host}:${PROXY.port}`,
  ]),
  ...["no_proxy", "NO_PROXY"].map((name) => [name, "localhost,127.0.0.1,::1"]),
]);

/**
 * Command lines without a sandbox: plain child processes of the service's user, for code that the operator trusts. A
 * limited heap, an empty environment and Node's permission model guard against mistakes, not against malice.
 */
export function trustedLauncher(node: { file: string; major: number }, limits: Limits): GuestLauncher {
  const folder = fileURLToPath(guestFolder);
  return {
    isolation: "trusted",
    guest: ({ scratch, folders = [] } = {}) => ({
      file: node.file,
      args: [
        ...nodeFlags(node.major, limits.guestMemoryMb, { readable: `${folder}*`, scratch: scratch!, folders }),
        `${folder}runner.mjs`,
      ],
      env: { ...guestEnvironment, ...scratchVariables(scratch!), ...folderVariables(folders) },
      cwd: scratch!,
    }),
    script: ({ interpreter, argv, env, folder, folders = [] }) => ({
      file: interpreter.file,
      args: [...interpreter.args, `${folder}/script`, ...argv],
      env: {
        ...scriptEnvironment,
        HOME: `${folder}/work`,
        TMPDIR: `${folder}/work`,
        ...folderVariables(folders),
        ...env,
      },
      cwd: `${folder}/work`,
    }),
  };
}
