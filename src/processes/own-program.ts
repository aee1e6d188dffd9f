import { realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { packageRoot } from "../config.ts";
import type { Command } from "./process-group.ts";
import { readOr } from "./process-tree.ts";
import {
  dataBesidesHeapMb,
  findSandboxTools,
  isVerdict,
  librariesOf,
  nobodyForRoot,
  readOnly,
  sandboxAdvice,
  sandboxCommand,
  type NoSandbox,
  type SandboxTools,
  type User,
} from "./sandbox.ts";

/**
 * A program of Berth's own that handles foreign input, and how it is started: in the sandbox, where it sees Berth's
 * code and the packages that it needs, and nothing else of the host. There is no trial beforehand: the first process
 * that starts finds out if the sandbox works on this machine, for all later ones in this process. Where it does not,
 * the program is a plain child process.
 */
export class OwnProgram {
  readonly #parts: OwnProgramParts;
  #machine: Promise<Machine | NoSandbox> | undefined;

  constructor(parts: OwnProgramParts) {
    this.#parts = parts;
  }

  async command(
    { memoryMb, options, env, sees = [] }: OwnProgramStart,
    mode: Confinement,
  ): Promise<OwnCommand | NoSandbox> {
    const argv = [...options, this.#parts.program];
    const trusted = (reason?: string): OwnCommand => ({
      command: { file: process.execPath, args: argv, env, cwd: packageRoot },
      ...(reason !== undefined && { reason }),
    });
    if (mode === "trusted") return trusted();
    let found: Machine | NoSandbox;
    try {
      found = await (this.#machine ??= look(this.#parts));
    } catch (error) {
      this.#machine = undefined;
      return { reason: `the sandbox cannot be tried for now (${(error as Error).message.split("\n")[0]})` };
    }
    if ("reason" in found) return mode === "auto" ? trusted(found.reason) : found;
    const [way] = found.ways;
    if (!way) {
      const reason = `${this.#parts.name} does not start in the sandbox here (${found.problem}): ${sandboxAdvice}`;
      return mode === "auto" ? trusted(reason) : { reason };
    }
    const command = sandboxCommand(found.tools, {
      limits: [`--data=${memoryMb * MEGABYTE}`, `--nofile=${OPEN_FILES}`, "--core=0"],
      sees: [...found.sees, ...sees],
      env,
      folder: packageRoot,
      argv: [NODE_INSIDE, ...argv],
      sockets: this.#parts.startsPrograms ? "local" : "none",
      ...way,
    });
    return { command, way };
  }

  /** The program has begun to work in the sandbox: from now on no failure is blamed on the sandbox. */
  async works(way: Way): Promise<void> {
    const found = await this.#machine;
    if (!found || "reason" in found) return;
    found.ways = [way];
    found.works = true;
  }

  /** The program never began to work. Returns true if that rules out this way to start it; there may be another. */
  async refused(way: Way, { exitCode, said }: { exitCode: number | null; said: string }): Promise<boolean> {
    const found = await this.#machine;
    if (!found || "reason" in found || found.works || !isVerdict({ code: exitCode, said })) return false;
    found.problem = said || `exit code ${exitCode}`;
    found.ways = found.ways.filter((each) => each !== way);
    return true;
  }
}

export interface OwnProgramParts {
  /** Its name at the beginning of a sentence. */
  readonly name: string;
  /** Its file. */
  readonly program: string;
  /** The packages that it imports, by name; their dependencies follow. */
  readonly packages: readonly string[];
  /** More of Berth's files that it sees, relative to the installation. */
  readonly files: readonly string[];
  /** The compiler does so for its bundler. */
  readonly startsPrograms?: boolean;
}

export interface OwnProgramStart {
  /** The memory of each process in all. */
  readonly memoryMb: number;
  /** Options of Node. */
  readonly options: readonly string[];
  /** No variable of the service reaches it: those could name secrets. */
  readonly env: Readonly<Record<string, string>>;
  /** Further things that it sees, as arguments of `bwrap`. */
  readonly sees?: readonly string[];
}

export interface OwnCommand {
  readonly command: Command;
  /** Undefined outside the sandbox. */
  readonly way?: Way;
  /** The reason why it runs outside the sandbox. */
  readonly reason?: string;
}

/** `auto`: in the sandbox wherever that works. */
export type Confinement = "auto" | "sandboxed" | "trusted";

/** Follows the isolation of guests: own programs get no access to the host that their sandbox can deny them. */
export function confinementBy(guests: Confinement): Confinement {
  return guests === "sandboxed" ? "sandboxed" : "auto";
}

/** The user outside the sandbox, when not the service's own. */
export interface Way {
  readonly user?: User;
}

/** The program of Node, inside. */
export const NODE_INSIDE = "/sbx/node";
/** The memory that each process may have besides its heap. */
export const BESIDES_HEAP_MB = dataBesidesHeapMb(Number(process.versions.node.split(".")[0]));
const MEGABYTE = 1024 * 1024;
const OPEN_FILES = 256;
const codeFolder = fileURLToPath(new URL("../", import.meta.url));

interface Machine {
  readonly tools: SandboxTools;
  readonly sees: readonly string[];
  /** The ways that may work; the first is tried next. */
  ways: readonly Way[];
  works: boolean;
  problem: string;
}

async function look({ packages, files }: OwnProgramParts): Promise<Machine | NoSandbox> {
  const tools = findSandboxTools();
  if ("reason" in tools) return tools;
  const libraries = librariesOf(process.execPath);
  const { folders, links } = packageFolders(packageRoot, packages);
  const own = ["package.json", ...files].map((file) => join(packageRoot, file));
  // Paths are the same inside, since packages find each other by them.
  const sees = [
    ...readOnly(process.execPath, NODE_INSIDE),
    ...[...(await libraries), codeFolder, ...own, ...folders].flatMap((path) => readOnly(path)),
    ...[...links].flatMap(([path, target]) => ["--symlink", target, path]),
  ];
  const nobody = nobodyForRoot();
  // Nobody cannot read what stands in root's home.
  return { tools, sees, ways: nobody ? [{ user: nobody }, {}] : [{}], works: false, problem: "" };
}

interface PackageFolders {
  readonly folders: readonly string[];
  /** The path where a package is found → where it really is, if elsewhere. */
  readonly links: ReadonlyMap<string, string>;
}

/** Installed packages and all their dependencies, as Node resolves them from `root`. */
function packageFolders(root: string, names: readonly string[]): PackageFolders {
  const folders = new Set<string>();
  const links = new Map<string, string>();
  const known = new Set<string>();
  const wanted = names.map((name) => ({ name, from: root }));
  for (const { name, from } of wanted) {
    const found = findPackage(name, from);
    if (!found || known.has(found.path)) continue;
    const { path, realPath, needs } = found;
    known.add(path);
    if (path !== realPath && !isBelowAny(path, folders)) links.set(path, realPath);
    if (!isBelowAny(realPath, folders)) folders.add(realPath);
    for (const needed of needs) wanted.push({ name: needed, from: realPath });
  }
  return { folders: [...folders], links };
}

interface InstalledPackage {
  readonly path: string;
  readonly realPath: string;
  readonly needs: readonly string[];
}

/** Resolves as Node does: in `node_modules` of each folder on the way up. */
function findPackage(name: string, from: string): InstalledPackage | undefined {
  for (let folder = from; ; folder = dirname(folder)) {
    const path = join(folder, "node_modules", name);
    const text = readOr(join(path, "package.json"));
    if (text !== "") return { path, realPath: realpathSync(path), needs: needsOf(name, text) };
    if (dirname(folder) === folder) return undefined;
  }
}

/** Leaves out types, which do nothing at run time, and bundler binaries of other machines. */
function needsOf(name: string, manifest: string): string[] {
  const { dependencies, peerDependencies } = JSON.parse(manifest) as Record<string, object | undefined>;
  const needs = Object.keys({ ...dependencies, ...peerDependencies }).filter((need) => !need.startsWith("@types/"));
  return name === "esbuild" ? [...needs, `@esbuild/${process.platform}-${process.arch}`] : needs;
}

function isBelowAny(path: string, folders: ReadonlySet<string>): boolean {
  for (let folder = path; dirname(folder) !== folder; folder = dirname(folder)) if (folders.has(folder)) return true;
  return false;
}
