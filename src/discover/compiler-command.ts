import { readFileSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { packageRoot } from "../config.ts";
import type { Command } from "../processes/process-group.ts";
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
} from "../processes/sandbox.ts";
import { compilerPackages, guestPackages } from "./packages.ts";

/**
 * How the compiler's process is started: in the sandbox, where it sees its own code and the packages that it bundles, and
 * nothing else of the host. Whether that works on this machine is not tried beforehand: the first compiler that is
 * started finds out, for all that come after it in this process. Where it does not, it is a plain child process.
 */
export interface CompilerCommand {
  readonly command: Command;
  /** Undefined: it is not in the sandbox. */
  readonly way?: Way;
  /** Why it is not. */
  readonly reason?: string;
}

/** `auto`: in the sandbox wherever that works. */
export type CompilerMode = "auto" | "sandboxed" | "trusted";

/** By how guests are isolated: the compiler is trusted with no host that its sandbox can keep it from. */
export function compilerMode(guests: CompilerMode): CompilerMode {
  return guests === "sandboxed" ? "sandboxed" : "auto";
}

/** Whom it is outside of the sandbox, when not the service's own user. */
export interface Way {
  readonly user?: User;
}

const nodeMajor = Number(process.versions.node.split(".")[0]);
/** What each process of the compiler may have besides its heap, and all of them together. */
export const BESIDES_HEAP_MB = dataBesidesHeapMb(nodeMajor);
const MEGABYTE = 1024 * 1024;
const OPEN_FILES = 256;
const codeFolder = fileURLToPath(new URL("../", import.meta.url));
const childFile = fileURLToPath(new URL("./child.js", import.meta.url));

export async function compilerCommand(memoryMb: number, mode: CompilerMode): Promise<CompilerCommand | NoSandbox> {
  const { argv, env } = program(memoryMb);
  const trusted = (reason?: string): CompilerCommand => ({
    command: { file: process.execPath, args: argv, env, cwd: packageRoot },
    ...(reason !== undefined && { reason }),
  });
  if (mode === "trusted") return trusted();
  let found: Machine | NoSandbox;
  try {
    found = await (machine ??= look());
  } catch (error) {
    machine = undefined;
    return { reason: `the sandbox cannot be tried for now (${(error as Error).message.split("\n")[0]})` };
  }
  if ("reason" in found) return mode === "auto" ? trusted(found.reason) : found;
  const [way] = found.ways;
  if (!way) {
    const reason = `the compiler does not start in the sandbox here (${found.problem}): ${sandboxAdvice}`;
    return mode === "auto" ? trusted(reason) : { reason };
  }
  const command = sandboxCommand(found.tools, {
    limits: [`--data=${(memoryMb + BESIDES_HEAP_MB) * MEGABYTE}`, `--nofile=${OPEN_FILES}`, "--core=0"],
    sees: found.sees,
    env,
    folder: packageRoot,
    argv: ["/sbx/node", ...argv],
    ...way,
  });
  return { command, way };
}

/** It has begun to work in the sandbox, so that from now on any other failure is not the sandbox's. */
export async function compilerWorks(way: Way): Promise<void> {
  const found = await machine;
  if (!found || "reason" in found) return;
  found.ways = [way];
  found.works = true;
}

/** It never began to work. Gives whether that is a verdict on this way to start it, after which there may be another. */
export async function compilerRefused(
  way: Way,
  { exitCode, said }: { exitCode: number | null; said: string },
): Promise<boolean> {
  const found = await machine;
  if (!found || "reason" in found || found.works || !isVerdict({ code: exitCode, said })) return false;
  found.problem = said || `exit code ${exitCode}`;
  found.ways = found.ways.filter((each) => each !== way);
  return true;
}

/**
 * Whatever serves is beside it, and has not many cores: one thread helps its own, which is enough. It makes much and
 * ends soon, so that it begins with room for that. It takes a quarter less time for both. The bundler has one thread, and
 * begins to save memory before it has none left. No variable of the service reaches either: those could name secrets.
 */
function program(memoryMb: number): { argv: string[]; env: Record<string, string> } {
  return {
    argv: ["--v8-pool-size=1", "--min-semi-space-size=16", `--max-old-space-size=${memoryMb}`, childFile],
    env: { GOMAXPROCS: "1", GOMEMLIMIT: `${memoryMb}MiB` },
  };
}

interface Machine {
  readonly tools: SandboxTools;
  readonly sees: readonly string[];
  /** Those that may work; the first is the next. */
  ways: readonly Way[];
  works: boolean;
  problem: string;
}

let machine: Promise<Machine | NoSandbox> | undefined;

async function look(): Promise<Machine | NoSandbox> {
  const tools = findSandboxTools();
  if ("reason" in tools) return tools;
  const libraries = librariesOf(process.execPath);
  const { folders, links } = packageFolders(packageRoot, [...compilerPackages, ...guestPackages]);
  const files = ["package.json", join("reference_templates", "berth.d.ts")].map((file) => join(packageRoot, file));
  // Paths are the same inside: by them packages find each other.
  const sees = [
    ...readOnly(process.execPath, "/sbx/node"),
    ...[...(await libraries), codeFolder, ...files, ...folders].flatMap((path) => readOnly(path)),
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
