import { realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { packageRoot } from "../config.ts";
import type { Command } from "./process-group.ts";
import { readIfReadable } from "./process-tree.ts";
import { withObstacle } from "./sandbox-obstacle.ts";
import {
  filtersSystemCalls,
  nonHeapMb,
  findSandboxTools,
  isConclusive,
  findLibraries,
  nobodyForRoot,
  readOnly,
  sandboxCommand,
  type NoSandbox,
  type SandboxTools,
  type User,
} from "./sandbox.ts";

/**
 * A program of Berth's own that handles untrusted input, and how it is started: in the sandbox, where it sees Berth's
 * code and the packages that it needs, and nothing else of the host. There is no trial beforehand: the first process to
 * start shows whether the sandbox works on this machine, for all later ones of this process. If it does not, the
 * program runs as a plain child process.
 */
export class OwnProgram {
  readonly #parts: OwnProgramParts;
  #machine: Promise<Machine | NoSandbox> | undefined;

  constructor(parts: OwnProgramParts) {
    this.#parts = parts;
  }

  async command(
    { memoryMb, options, env, sees = [] }: OwnProgramOptions,
    mode: Confinement,
  ): Promise<OwnCommand | NoSandbox> {
    const argv = [...options, this.#parts.program];
    const trusted = (reason?: string): OwnCommand => ({
      command: { file: process.execPath, args: argv, env, cwd: packageRoot },
      ...(reason !== undefined && { reason }),
    });
    if (mode === "trusted") return trusted();
    let machine: Machine | NoSandbox;
    try {
      machine = await (this.#machine ??= inspectMachine(this.#parts));
    } catch (error) {
      this.#machine = undefined;
      return { reason: `the sandbox cannot be tried for now (${(error as Error).message.split("\n")[0]})` };
    }
    if ("reason" in machine) return mode === "auto" ? trusted(machine.reason) : machine;
    const [variant] = machine.ways;
    if (!variant) {
      const reason = withObstacle(`${this.#parts.name} does not start in the sandbox here`, machine.problem);
      return mode === "auto" ? trusted(reason) : { reason };
    }
    const command = sandboxCommand(machine.tools, {
      limits: [`--data=${memoryMb * MEGABYTE}`, `--nofile=${OPEN_FILES}`, "--core=0"],
      sees: [...machine.sees, ...sees],
      env,
      folder: packageRoot,
      argv: [NODE_INSIDE, ...argv],
      sockets: this.#parts.startsPrograms ? "local" : "none",
      ...variant,
    });
    return { command, way: variant };
  }

  /** Reports that the program works in the sandbox: from now on, no failure is attributed to the sandbox. */
  async works(variant: SandboxVariant): Promise<void> {
    const machine = await this.#machine;
    if (!machine || "reason" in machine) return;
    machine.ways = [variant];
    machine.works = true;
  }

  /** Reports that the program never started to work. Returns true if that rules out this variant. */
  async refused(
    variant: SandboxVariant,
    { exitCode, said: stderr }: { exitCode: number | null; said: string },
  ): Promise<boolean> {
    const machine = await this.#machine;
    if (!machine || "reason" in machine || machine.works || !isConclusive({ code: exitCode, stderr: stderr }))
      return false;
    machine.problem = stderr || `exit code ${exitCode}`;
    machine.ways = machine.ways.filter((each) => each !== variant);
    return true;
  }
}

export interface OwnProgramParts {
  /** Its name, as the beginning of a sentence. */
  readonly name: string;
  /** Its file. */
  readonly program: string;
  /** The packages that it imports, by name; their dependencies are added. */
  readonly packages: readonly string[];
  /** Further files of Berth that it sees, relative to the installation. */
  readonly files: readonly string[];
  /** The compiler starts its bundler. */
  readonly startsPrograms?: boolean;
}

export interface OwnProgramOptions {
  /** Memory limit of each process, including its heap. */
  readonly memoryMb: number;
  /** Node options. */
  readonly options: readonly string[];
  /** No variable of the service is passed on: they may contain secrets. */
  readonly env: Readonly<Record<string, string>>;
  /** Further arguments of `bwrap` that make things visible. */
  readonly sees?: readonly string[];
}

export interface OwnCommand {
  readonly command: Command;
  /** Undefined outside the sandbox. */
  readonly way?: SandboxVariant;
  /** Why it runs outside the sandbox. */
  readonly reason?: string;
}

/** `auto`: in the sandbox if that works. */
export type Confinement = "auto" | "sandboxed" | "trusted";

/** Follows the isolation of guests: Berth's own programs get no access to the host that their sandbox can deny. */
export function confinementFor(guests: Confinement): Confinement {
  return guests === "sandboxed" ? "sandboxed" : "auto";
}

/** The user outside the sandbox, if not the service's own, and the profile. */
export interface SandboxVariant {
  readonly user?: User;
  readonly isReduced?: true;
}

/** The path of the Node binary inside the sandbox. */
export const NODE_INSIDE = "/sbx/node";
/** The memory that each process may have in addition to its heap. */
export const NON_HEAP_MB = nonHeapMb(Number(process.versions.node.split(".")[0]));
const MEGABYTE = 1024 * 1024;
const OPEN_FILES = 256;
const codeFolder = fileURLToPath(new URL("../", import.meta.url));

interface Machine {
  readonly tools: SandboxTools;
  readonly sees: readonly string[];
  /** The variants that may work; the first is tried next. */
  ways: readonly SandboxVariant[];
  works: boolean;
  problem: string;
}

async function inspectMachine({ packages, files }: OwnProgramParts): Promise<Machine | NoSandbox> {
  const tools = findSandboxTools();
  if ("reason" in tools) return tools;
  const libraries = findLibraries(process.execPath);
  const { folders, links } = packageFolders(packageRoot, packages);
  const ownFiles = ["package.json", ...files].map((file) => join(packageRoot, file));
  // Paths are the same inside, since packages find each other by path.
  const sees = [
    ...readOnly(process.execPath, NODE_INSIDE),
    ...[...(await libraries), codeFolder, ...ownFiles, ...folders].flatMap((path) => readOnly(path)),
    ...[...links].flatMap(([path, target]) => ["--symlink", target, path]),
  ];
  const nobody = nobodyForRoot();
  // The user nobody cannot read files in root's home.
  const isReduced = true as const;
  const users: readonly SandboxVariant[] = nobody ? [{ user: nobody }, {}] : [{}];
  const ways = [
    ...users,
    ...(filtersSystemCalls ? users.map(({ user }) => (user ? { user, isReduced } : { isReduced })) : []),
  ];
  return { tools, sees, ways, works: false, problem: "" };
}

interface PackageFolders {
  readonly folders: readonly string[];
  /** From the path where a package is found to its real path, if that differs. */
  readonly links: ReadonlyMap<string, string>;
}

/** Installed packages and all their dependencies, as Node resolves them from `root`. */
function packageFolders(root: string, names: readonly string[]): PackageFolders {
  const folders = new Set<string>();
  const links = new Map<string, string>();
  const visited = new Set<string>();
  const queue = names.map((name) => ({ name, from: root }));
  for (const { name, from } of queue) {
    const installed = findPackage(name, from);
    if (!installed || visited.has(installed.path)) continue;
    const { path, realPath, needs: dependencies } = installed;
    visited.add(path);
    if (path !== realPath && !isBelowAny(path, folders)) links.set(path, realPath);
    if (!isBelowAny(realPath, folders)) folders.add(realPath);
    for (const dependency of dependencies) queue.push({ name: dependency, from: realPath });
  }
  return { folders: [...folders], links };
}

interface InstalledPackage {
  readonly path: string;
  readonly realPath: string;
  readonly needs: readonly string[];
}

/** Resolves as Node does: in `node_modules` of each folder upwards. */
function findPackage(name: string, from: string): InstalledPackage | undefined {
  for (let folder = from; ; folder = dirname(folder)) {
    const path = join(folder, "node_modules", name);
    const text = readIfReadable(join(path, "package.json"));
    if (text !== "") return { path, realPath: realpathSync(path), needs: runtimeDependencies(name, text) };
    if (dirname(folder) === folder) return undefined;
  }
}

/** Excludes types, which do nothing at run time, and bundler binaries of other platforms. */
function runtimeDependencies(name: string, manifest: string): string[] {
  const { dependencies, peerDependencies } = JSON.parse(manifest) as Record<string, object | undefined>;
  const runtime = Object.keys({ ...dependencies, ...peerDependencies }).filter((need) => !need.startsWith("@types/"));
  return name === "esbuild" ? [...runtime, `@esbuild/${process.platform}-${process.arch}`] : runtime;
}

function isBelowAny(path: string, folders: ReadonlySet<string>): boolean {
  for (let folder = path; dirname(folder) !== folder; folder = dirname(folder)) if (folders.has(folder)) return true;
  return false;
}
