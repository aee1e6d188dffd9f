import { readFileSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { packageRoot } from "../config.ts";
import type { Command } from "./process-group.ts";
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
 * A program of Berth's own that handles what others wrote, and how it is started: in the sandbox, where it sees Berth's
 * code and the packages that it needs, and nothing else of the host. Whether that works on this machine is not tried
 * beforehand: the first process that is started finds out, for all that come after it in this process. Where it does not,
 * it is a plain child process.
 */
export class OwnProgram {
  readonly #parts: OwnProgramParts;
  #machine: Promise<Machine | NoSandbox> | undefined;

  constructor(parts: OwnProgramParts) {
    this.#parts = parts;
  }

  async command({ memoryMb, options, env }: OwnProgramStart, mode: Confinement): Promise<OwnCommand | NoSandbox> {
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
      sees: found.sees,
      env,
      folder: packageRoot,
      argv: ["/sbx/node", ...argv],
      localSockets: this.#parts.startsPrograms ?? false,
      ...way,
    });
    return { command, way };
  }

  /** It has begun to work in the sandbox, so that from now on any other failure is not the sandbox's. */
  async works(way: Way): Promise<void> {
    const found = await this.#machine;
    if (!found || "reason" in found) return;
    found.ways = [way];
    found.works = true;
  }

  /** It never began to work. Gives whether that is a verdict on this way to start it, after which there may be another. */
  async refused(way: Way, { exitCode, said }: { exitCode: number | null; said: string }): Promise<boolean> {
    const found = await this.#machine;
    if (!found || "reason" in found || found.works || !isVerdict({ code: exitCode, said })) return false;
    found.problem = said || `exit code ${exitCode}`;
    found.ways = found.ways.filter((each) => each !== way);
    return true;
  }
}

export interface OwnProgramParts {
  /** As a sentence begins with it. */
  readonly name: string;
  /** Its file. */
  readonly program: string;
  /** Those that it and they that it needs are made of, by name. */
  readonly packages: readonly string[];
  /** More files of Berth that it sees, from where Berth is installed. */
  readonly files: readonly string[];
  /** As the compiler starts its bundler. */
  readonly startsPrograms?: boolean;
}

export interface OwnProgramStart {
  /** Each process may have, in all. */
  readonly memoryMb: number;
  /** Of Node. */
  readonly options: readonly string[];
  /** No variable of the service reaches it: those could name secrets. */
  readonly env: Readonly<Record<string, string>>;
}

export interface OwnCommand {
  readonly command: Command;
  /** Undefined: it is not in the sandbox. */
  readonly way?: Way;
  /** Why it is not. */
  readonly reason?: string;
}

/** `auto`: in the sandbox wherever that works. */
export type Confinement = "auto" | "sandboxed" | "trusted";

/** By how guests are isolated: own programs are trusted with no host that their sandbox can keep them from. */
export function confinementBy(guests: Confinement): Confinement {
  return guests === "sandboxed" ? "sandboxed" : "auto";
}

/** Whom it is outside of the sandbox, when not the service's own user. */
export interface Way {
  readonly user?: User;
}

/** What each process may have besides its heap. */
export const BESIDES_HEAP_MB = dataBesidesHeapMb(Number(process.versions.node.split(".")[0]));
const MEGABYTE = 1024 * 1024;
const OPEN_FILES = 256;
const codeFolder = fileURLToPath(new URL("../", import.meta.url));

interface Machine {
  readonly tools: SandboxTools;
  readonly sees: readonly string[];
  /** Those that may work; the first is the next. */
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
  // Paths are the same inside: by them packages find each other.
  const sees = [
    ...readOnly(process.execPath, "/sbx/node"),
    ...[...(await libraries), codeFolder, ...own, ...folders].flatMap((path) => readOnly(path)),
    ...[...links].flatMap(([path, target]) => ["--symlink", target, path]),
  ];
  const nobody = nobodyForRoot();
  // Nobody cannot read what stands in root's home.
  return { tools, sees, ways: nobody ? [{ user: nobody }, {}] : [{}], works: false, problem: "" };
}

interface PackageFolders {
  readonly folders: readonly string[];
  /** Where a package is found → where it stands, if not there. */
  readonly links: ReadonlyMap<string, string>;
}

/** Installed packages and all that they depend on, as they are found from `root` on. */
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

/** As Node looks for it: in `node_modules` of each folder on the way up. */
function findPackage(name: string, from: string): InstalledPackage | undefined {
  for (let folder = from; ; folder = dirname(folder)) {
    const path = join(folder, "node_modules", name);
    const text = readOr(join(path, "package.json"));
    if (text !== undefined) return { path, realPath: realpathSync(path), needs: needsOf(name, text) };
    if (dirname(folder) === folder) return undefined;
  }
}

/** Types are nothing at run time; of the bundler's binaries one is this machine's. */
function needsOf(name: string, manifest: string): string[] {
  const { dependencies, peerDependencies } = JSON.parse(manifest) as Record<string, object | undefined>;
  const needs = Object.keys({ ...dependencies, ...peerDependencies }).filter((need) => !need.startsWith("@types/"));
  return name === "esbuild" ? [...needs, `@esbuild/${process.platform}-${process.arch}`] : needs;
}

function isBelowAny(path: string, folders: ReadonlySet<string>): boolean {
  for (let folder = path; dirname(folder) !== folder; folder = dirname(folder)) if (folders.has(folder)) return true;
  return false;
}

function readOr(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}
