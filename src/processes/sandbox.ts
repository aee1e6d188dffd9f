import { execFile } from "node:child_process";
import { accessSync, constants, existsSync, lstatSync, readFileSync, readlinkSync } from "node:fs";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import type { Command, Exit } from "./process-group.ts";
import { withObstacle } from "./sandbox-obstacle.ts";
import { seccompFilter, type ConfinedSockets } from "./seccomp.ts";

/**
 * The sandbox for everything that handles untrusted code or data: resource limits (`prlimit`), namespaces without
 * anything of the host (`bwrap`), and a filter of system calls. From the visible files, the limits and the program, it
 * builds a command line; it starts nothing and knows no program. Having the tools is not enough: containers and
 * distributions forbid namespaces in many ways, so users of the sandbox must try their own command first.
 */
export interface SandboxTools {
  readonly bwrap: string;
  readonly prlimit: string;
}

export interface SandboxOptions {
  /** The visible parts of the host, as arguments of `bwrap` (`readOnly`, `systemFolders`). Nothing else exists. */
  readonly sees: readonly string[];
  /** Arguments of `prlimit`, which apply to each process. */
  readonly limits?: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Further variables, hidden from process lists by writing them to descriptor 4. */
  readonly hiddenEnv?: Readonly<Record<string, string>>;
  /** The working folder inside the sandbox. */
  readonly folder: string;
  /** The program, by its path inside, and its arguments. */
  readonly argv: readonly string[];
  /** The user outside the sandbox, if not the service's own; only root can choose. */
  readonly user?: User;
  /** The sockets that it may open; by default none. */
  readonly sockets?: ConfinedSockets;
  /** The profile for machines where `/proc/sys` is read-only, as in most containers: only the filter denies namespaces. */
  readonly isReduced?: boolean;
  /** It is started by a program that owns a network (`networkCommand`), and shares that one instead of an empty one. */
  readonly sharesNetwork?: boolean;
}

export interface User {
  readonly uid: number;
  readonly gid: number;
}

/** Why the sandbox does not work on this machine. */
export interface NoSandbox {
  readonly reason: string;
  /** The first line that the program of the sandbox wrote, if it was started. */
  readonly problem?: string;
}

/** System call filters; installed once the rest of the sandbox is set up. */
const filters = {
  local: seccompFilter(process.arch, "local")?.toString("base64"),
  out: seccompFilter(process.arch, "out")?.toString("base64"),
  none: seccompFilter(process.arch, "none")?.toString("base64"),
  tcp: seccompFilter(process.arch, "tcp")?.toString("base64"),
  "local and tcp": seccompFilter(process.arch, "local and tcp")?.toString("base64"),
};
/** False on machines whose system call numbers are unknown: the sandbox then works without a filter. */
export const filtersSystemCalls = filters.none !== undefined;
/** The descriptor after the pipes of the confined program. */
const FILTER_DESCRIPTOR = 5;
const NOBODY: User = { uid: 65_534, gid: 65_534 };
export function findSandboxTools(): SandboxTools | NoSandbox {
  if (process.platform !== "linux") return { reason: `the sandbox needs Linux, and this is ${process.platform}` };
  const bwrap = findProgram("bwrap");
  if (!bwrap) return { reason: withObstacle("bwrap is not installed") };
  const prlimit = findProgram("prlimit");
  if (!prlimit) return { reason: "prlimit is not installed: install util-linux" };
  return { bwrap, prlimit };
}

export function sandboxCommand({ bwrap, prlimit }: SandboxTools, confined: SandboxOptions): Command {
  const { sees, limits, env, hiddenEnv, folder, argv, user, sockets = "none", isReduced, sharesNetwork } = confined;
  const filter = filters[sockets];
  if (isReduced && !filter) throw new Error("without a filter, the reduced profile would allow namespaces");
  const sandbox = [
    bwrap,
    ...namespaces,
    ...(isReduced ? [] : ["--disable-userns"]),
    ...(sharesNetwork ? ["--share-net"] : []),
    ...toSetenv(env),
    ...(hiddenEnv ? ["--args", "4"] : []),
    ...(filter ? ["--seccomp", String(FILTER_DESCRIPTOR)] : []),
    ...sees,
    "--remount-ro",
    "/",
    "--chdir",
    folder,
    "--",
    ...argv,
  ];
  const [file, ...args] = limits ? [prlimit, ...limits.map(capAtOwnLimit), ...sandbox] : sandbox;
  return {
    file: file!,
    args,
    env: {},
    cwd: "/",
    ...user,
    ...(hiddenEnv && { hiddenArgs: toSetenv(hiddenEnv) }),
    ...(filter && { given: { descriptor: FILTER_DESCRIPTOR, base64: filter } }),
  };
}

/**
 * Builds the command line of a program of Berth's own that owns a network, in which it starts a confined one. It is
 * confined as well, except for what that requires: no filter denies it namespaces, and it is root in its own ones with
 * a few of root's capabilities. There it may listen on every port and set the size of socket buffers.
 */
export function networkCommand(
  { bwrap, prlimit }: SandboxTools,
  { sees, limits = [], argv, user }: Pick<SandboxOptions, "sees" | "limits" | "argv" | "user">,
): Command {
  const args = [...limits.map(capAtOwnLimit), bwrap, ...ownerNamespaces, ...sees, "--remount-ro", "/", "--", ...argv];
  return { file: prlimit, args, env: {}, cwd: "/", ...user };
}

/** The names in Linux's list of the service's own limits, by option of `prlimit`. */
const LIMIT_NAMES: Readonly<Record<string, string>> = {
  "--data": "Max data size",
  "--nofile": "Max open files",
  "--nproc": "Max processes",
  "--fsize": "Max file size",
  "--as": "Max address space",
  "--cpu": "Max cpu time",
};

/** No process may set a limit above its own hard limit, and a lower one confines as well. */
export function capAtOwnLimit(option: string): string {
  const [name = "", requested] = option.split("=");
  const label = LIMIT_NAMES[name];
  if (label === undefined) return option;
  const line = readFileSync("/proc/self/limits", "latin1")
    .split("\n")
    .find((each) => each.startsWith(label));
  const hard = Number(/(\d+|unlimited)\s*(?:bytes|files|processes|seconds)\s*$/.exec(line ?? "")?.[1]);
  return Number.isNaN(hard) || hard >= Number(requested) ? option : `${name}=${hard}`;
}

/** V8's memory other than its heap: code, new space, buffers. Node 24 reserves writable code memory at its start. */
export function nonHeapMb(nodeMajor: number): number {
  return nodeMajor < 23 ? 448 : 960;
}

/** The user that root's programs run as outside the sandbox; undefined for others, who cannot change users. */
export function nobodyForRoot(): User | undefined {
  return process.getuid?.() === 0 ? NOBODY : undefined;
}

/**
 * True if a trial that ended this way shows that the sandbox is forbidden or broken here. Otherwise it was only
 * unavailable: processes, memory or descriptors were short, or the trial was killed.
 */
export function isConclusive({ code, startError, stderr }: Trial): boolean {
  if (startError) return !shortage.test(startError.message);
  return code !== null && code > 0 && code < 128 && (!shortage.test(stderr) || forbidsNamespaces());
}

/** How a process ended, with its stderr. */
export type Trial = Pick<Exit, "code" | "startError"> & { readonly stderr: string };

/** The wording of `EAGAIN`, `ENOMEM`, `EMFILE`, `ENFILE` and `ENOSPC`, the last of which means too many namespaces. */
const shortage =
  /temporarily unavailable|cannot allocate memory|out of memory|cannot fork|too many open files|no space left|ENOSPC|EAGAIN|ENOMEM|E[MN]FILE/i;

function forbidsNamespaces(): boolean {
  try {
    return readFileSync("/proc/sys/user/max_user_namespaces", "latin1").trim() === "0";
  } catch {
    return false;
  }
}

export function readOnly(source: string, target = source): string[] {
  return ["--ro-bind", source, target];
}

const SYSTEM_FOLDERS = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/alternatives"];

/** The programs of the host, read-only, with the symbolic links at the root of merged systems. */
export function systemFolders(): string[] {
  return SYSTEM_FOLDERS.flatMap((folder) => {
    const stat = lstatSync(folder, { throwIfNoEntry: false });
    if (!stat) return [];
    return stat.isSymbolicLink() ? ["--symlink", readlinkSync(folder), folder] : readOnly(folder);
  });
}

/** A file that may be in a system folder, which is then visible already. */
export function readOnlyUnlessSystem(file: string): string[] {
  return isInSystemFolder(file) ? [] : readOnly(file);
}

/** By its path alone, which must be absolute and normalized. */
export function isInSystemFolder(file: string): boolean {
  return SYSTEM_FOLDERS.some((folder) => file.startsWith(`${folder}/`));
}

/** The certificate authorities that the host's programs trust in TLS; there are no keys in these places. */
export function certificateAuthorities(): string[] {
  return AUTHORITIES.filter((path) => existsSync(path)).flatMap((place) => readOnly(place));
}

const AUTHORITIES = [
  "/etc/ssl/certs",
  "/etc/ssl/cert.pem",
  "/etc/ssl/openssl.cnf",
  "/etc/ca-certificates",
  "/etc/pki/ca-trust",
  "/etc/pki/tls/certs",
  "/etc/pki/tls/cert.pem",
  "/etc/pki/tls/openssl.cnf",
];

/**
 * The shared libraries of a program, the only ones its sandbox has; a program may have none. Rejects if they cannot be
 * determined at the moment.
 */
export async function findLibraries(file: string): Promise<readonly string[]> {
  const cached = libraries.get(file);
  if (cached) return cached;
  try {
    const { stdout } = await promisify(execFile)("ldd", [file]);
    const paths = [...stdout.matchAll(/(?:=> )?(\/\S+) \(0x/g)].map((match) => match[1]!);
    libraries.set(file, paths);
    return paths;
  } catch (error) {
    const { code, message } = error as { code?: unknown; message: string };
    const hasNone = code === "ENOENT" || (typeof code === "number" && isConclusive({ code, stderr: message }));
    if (!hasNone) throw error;
    return [];
  }
}

const libraries = new Map<string, readonly string[]>();

/** The id of nobody inside the sandbox. */
const INSIDE_ID = "65534";

/** No `--new-session`: they already lead a session without a terminal, and its priority counts for all of them. */
const namespaces = words(
  `--unshare-user --unshare-all --die-with-parent --cap-drop ALL --uid ${INSIDE_ID} --gid ${INSIDE_ID} --clearenv`,
);

/**
 * A process that starts a confined program assigns it an id, which takes `CAP_SETFCAP` if that is root's. It sees the
 * host's processes and `/proc`: a new one, of which the sandbox covers a part, would allow no further one.
 */
const ownerNamespaces = words(
  "--unshare-user --unshare-ipc --unshare-net --unshare-uts --unshare-cgroup-try --die-with-parent " +
    "--uid 0 --gid 0 --clearenv --cap-drop ALL " +
    "--cap-add CAP_NET_BIND_SERVICE --cap-add CAP_NET_ADMIN --cap-add CAP_SETFCAP",
);

function toSetenv(environment: Readonly<Record<string, string>>): string[] {
  return Object.entries(environment).flatMap(([name, value]) => ["--setenv", name, value]);
}

/** Splits strings that contain no spaces. */
export function words(text: string): string[] {
  return text.split(" ");
}

function findProgram(name: string): string | undefined {
  const folders = (process.env["PATH"] ?? "/usr/local/bin:/usr/bin:/bin").split(delimiter);
  return folders
    .filter(Boolean)
    .map((folder) => join(folder, name))
    .find(isExecutable);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
