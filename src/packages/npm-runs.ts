import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text as textOf } from "node:stream/consumers";
import { tryParseObject } from "../lib/json.ts";
import { prettyJson } from "../lib/pretty-json.ts";
import type { Problem } from "../lib/problem.ts";
import { readLock } from "./lock.ts";
import { isSha512, type LockedPackage, type PackageSet } from "./package-set.ts";

/**
 * Asks npm, in words of its command line, to resolve ranges and to bring tarballs. No script of a package
 * is ever run. Runs as it is in the author's own shell, and inside of the sandbox for everybody else.
 */
export interface NpmPlace {
  /** The program of Node: without `/proc` it does not know where it is itself. */
  readonly node: string;
  /** The file `npm-cli.js`. */
  readonly cli: string;
  /** npm's version. */
  readonly version: string;
  /** Options of Node, before that file. */
  readonly nodeOptions: readonly string[];
  /** Options of npm, after the command. */
  readonly options: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** An existing, empty folder, in which others are made. */
  readonly scratch: string;
  /** Where npm is started to fetch, which says whose configuration counts. */
  readonly cwd: string;
  /** A file of settings that counts when something is resolved, if it exists. */
  readonly settings?: string;
  /** npm's cache is made anew for each run, and removed after it. */
  readonly ownCache: boolean;
  /** Ends whatever is under way. */
  readonly signal?: AbortSignal;
}

/** The input of a set. */
export interface Wish {
  /** Names with ranges; an empty range stands for the newest version, which npm then writes as a range. */
  readonly dependencies: Readonly<Record<string, string>>;
  /** The versions that this set has locked stay. */
  readonly previous?: PackageSet;
  /** Except for these packages, or for all. */
  readonly update?: true | readonly string[];
}

export interface ResolveLimits {
  readonly packagesPerSet?: number;
  readonly registries: readonly string[];
}

/** How npm failed, in words that name no address and no folder of the machine. */
export class NpmFailed extends Error {
  /** npm's own code, such as `E404`. */
  readonly code: string;
  /** The package that npm spoke of, if it is known. */
  readonly package: string | undefined;

  constructor(code: string, said: string, failed?: string) {
    super(said);
    this.name = "NpmFailed";
    this.code = code;
    this.package = failed;
  }
}

const QUIET = words(
  "--ignore-scripts --no-audit --no-fund --no-update-notifier --no-progress --no-color --loglevel=error --logs-max=0",
);
/** Only the registry's packages are taken. Versions of npm that do not know these options find no git, and the lock is read. */
const REGISTRY_ONLY = words("--allow-git=none --allow-remote=none --allow-file=none --allow-directory=none");
const LOCK = words("--package-lock-only --package-lock --lockfile-version=3 --no-workspaces --no-global");

/** The set that npm makes of a wish, without tarballs; errors are among the problems. */
export async function resolveSet(
  place: NpmPlace,
  { dependencies, previous, update }: Wish,
  limits: ResolveLimits,
): Promise<{ set?: PackageSet; problems: Problem[] }> {
  const folder = await mkdtemp(join(place.scratch, "set-"));
  try {
    const written = Object.entries(dependencies).filter(([, range]) => range !== "");
    const newest = Object.keys(dependencies).filter((name) => dependencies[name] === "");
    const manifest = { name: "packages", private: true, dependencies: Object.fromEntries(written) };
    await writeFile(join(folder, "package.json"), prettyJson(manifest));
    if (previous && update !== true) await writeFile(join(folder, "package-lock.json"), lockTextOf(previous));
    // There may be none.
    if (place.settings !== undefined) await copyFile(place.settings, join(folder, ".npmrc")).catch(() => {});
    const inFolder = { ...place, cwd: folder };
    await runNpm(inFolder, ["install", ...LOCK, ...REGISTRY_ONLY, "--", ...newest.map((name) => `${name}@latest`)]);
    if (previous && Array.isArray(update) && update.length > 0)
      await runNpm(inFolder, ["update", ...LOCK, ...REGISTRY_ONLY, "--", ...(update as readonly string[])]);
    const read = async (file: string) => ({ file, text: await readFile(join(folder, file), "utf8") });
    // Without any dependency npm writes no lock.
    const noLock = { file: "package-lock.json", text: prettyJson({ lockfileVersion: 3, packages: {} }) };
    const lock = await read(noLock.file).catch(() => noLock);
    return readLock(await read("package.json"), lock, { ...limits, npm: place.version });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The lock that a set was read from, as far as npm needs it. */
export function lockTextOf({ dependencies, packages, lines = {} }: PackageSet): string {
  const locked = Object.entries(packages).map(([place, { name, version, integrity, os, cpu, libc }]) => {
    const isAlias = !place.endsWith(`node_modules/${name}`);
    return [place, { ...(isAlias && { name }), version, integrity, os, cpu, libc, ...lines[place] }] as const;
  });
  return prettyJson({
    name: "packages",
    lockfileVersion: 3,
    requires: true,
    packages: { "": { name: "packages", dependencies }, ...Object.fromEntries(locked) },
  });
}

/** The package that npm is asked for, and the sha512 by which it may name it. */
export type WantedTarball = Pick<LockedPackage, "name" | "version" | "integrity">;

interface Spec {
  /** `name@version` */
  readonly spec: string;
  readonly integrity: string;
}

/** `asked`: the package that npm gave this file for, if it can be told. */
type TakeAsked = (tarball: Uint8Array, asked: Spec | undefined) => Promise<void>;

/** The packages that one run of npm brings: each takes some requests, one after the other. */
const SPECS_PER_RUN = 24;
const RUNS_AT_ONCE = 3;

/**
 * Brings tarballs, each of which `take` is given once, if the registry has the asked bytes under the asked name and
 * version: those of another package must not pass for it. Rejects with `NpmFailed` where npm cannot bring one of them.
 */
export async function packAll(
  place: NpmPlace,
  packages: readonly WantedTarball[],
  take: (tarball: Uint8Array) => Promise<void>,
): Promise<void> {
  const wanted = new Set(packages.map(({ integrity }) => integrity));
  const takeOwn: TakeAsked = async (tarball, asked) => {
    const integrity = integrityOf(tarball);
    if (asked?.integrity === integrity || !wanted.has(integrity)) await take(tarball);
  };
  const waiting = inRuns(packages.map(({ name, version, integrity }) => ({ spec: `${name}@${version}`, integrity })));
  const work = async (): Promise<void> => {
    for (let specs = waiting.shift(); specs; specs = waiting.shift()) {
      try {
        await packSome(place, specs, takeOwn);
      } catch (error) {
        waiting.length = 0;
        throw error;
      }
    }
  };
  const ended = await Promise.allSettled(Array.from({ length: RUNS_AT_ONCE }, work));
  const failed = ended.find((each) => each.status === "rejected");
  if (failed) throw failed.reason;
}

/** The sha512 of a tarball, as npm writes it. */
export function integrityOf(tarball: Uint8Array): string {
  return `sha512-${createHash("sha512").update(tarball).digest("base64")}`;
}

/** Packages whose files npm calls alike are brought one after the other. */
function inRuns(specs: readonly Spec[]): Spec[][] {
  const runs: Spec[][] = [];
  const size = Math.min(SPECS_PER_RUN, Math.max(1, Math.ceil(specs.length / RUNS_AT_ONCE)));
  for (const spec of specs) {
    const file = fileNameOf(spec);
    const run = runs.find((each) => each.length < size && !each.some((other) => fileNameOf(other) === file));
    if (run) run.push(spec);
    else runs.push([spec]);
  }
  return runs;
}

/** `@a/b@1.0.0` → `a-b-1.0.0` */
function fileNameOf({ spec }: Spec): string {
  return spec.replace(/^@/, "").replaceAll(/[/@]/g, "-").toLowerCase();
}

async function packSome(place: NpmPlace, specs: readonly Spec[], take: TakeAsked): Promise<void> {
  const out = await mkdtemp(join(place.scratch, "out-"));
  try {
    await runNpm(place, ["pack", `--pack-destination=${out}`, "--no-json", "--", ...specs.map(({ spec }) => spec)]);
    for (const name of await readdir(out)) {
      const asked =
        specs.length === 1 ? specs[0] : specs.find((spec) => `${fileNameOf(spec)}.tgz` === name.toLowerCase());
      await take(await readFile(join(out, name)), asked);
    }
  } catch (error) {
    if (!(error instanceof NpmFailed)) throw error;
    const named = specs.length === 1 ? specs[0] : specs.find((each) => mentions(error.message, each));
    if (named !== undefined) throw new NpmFailed(error.code, error.message, named.spec);
    if (isOfNobody(error.code)) throw error;
    // npm does not always say which one it was.
    const half = Math.ceil(specs.length / 2);
    await packSome(place, specs.slice(0, half), take);
    await packSome(place, specs.slice(half), take);
  } finally {
    await rm(out, { recursive: true, force: true });
  }
}

function mentions(said: string, { spec, integrity }: Spec): boolean {
  if (said.includes(integrity)) return true;
  const at = said.indexOf(spec);
  return at >= 0 && !/[\w.-]/.test(said.charAt(at + spec.length)) && !/[\w/@-]/.test(said.charAt(at - 1));
}

/** The registry is at fault, or the machine, whichever package is asked for. */
export function isOfNobody(code: string): boolean {
  return /^(?:ECONN|ENOTFOUND|EAI_|ETIMEDOUT|ERR_SOCKET|E5\d\d|E429|E401|EUSAGE|ENOSPC|ENOMEM|KILLED|NONE|FETCH_ERROR|ERR_HTTP|EPIPE)/.test(
    code,
  );
}

const STDERR_UNITS_MAX = 16_000;

async function runNpm(place: NpmPlace, args: readonly string[]): Promise<void> {
  const { node, cli, nodeOptions, options, env, scratch, cwd, ownCache, signal } = place;
  const cache = ownCache ? await mkdtemp(join(scratch, "cache-")) : undefined;
  if (cache !== undefined) await mkdir(join(cache, "home"));
  const [command = "", ...rest] = args;
  const argv = [
    ...nodeOptions,
    cli,
    command,
    ...QUIET,
    ...(cache === undefined ? [] : [`--cache=${cache}`]),
    ...options,
  ];
  try {
    const child = spawn(node, [...argv, ...rest], {
      cwd,
      env: { ...env, ...(cache !== undefined && { HOME: join(cache, "home") }) },
      // The sandbox has no `/dev/null`.
      stdio: ["pipe", "pipe", "pipe"],
      ...(signal && { signal, killSignal: "SIGKILL" }),
    });
    child.stdin.on("error", () => {}).end();
    child.stdout.resume();
    let stderr = "";
    child.stderr.on("data", (chunk: Buffer) => {
      if (stderr.length < STDERR_UNITS_MAX) stderr += chunk.toString("utf8");
    });
    const [code, killedBy] = (await once(child, "close")) as [number | null, string | null];
    if (code === 0) return;
    throw failureOf(stderr, code === null ? `it was ended by ${killedBy}` : `exit code ${code}`);
  } finally {
    if (cache !== undefined) await rm(cache, { recursive: true, force: true });
  }
}

/** `npm error code E404` and what follows it, without its log, its hints, and addresses. */
function failureOf(stderr: string, how: string): NpmFailed {
  if (/heap out of memory|Allocation failed/i.test(stderr)) return new NpmFailed("ENOMEM", "npm ran out of memory");
  const lines = stderr.split("\n").flatMap((line) => {
    const found = /^npm (?:error|ERR!)\s?(.*)$/.exec(line);
    return found ? [found[1]!.trim()] : [];
  });
  const code = lines.find((line) => line.startsWith("code "))?.slice("code ".length) ?? "NONE";
  const said = lines
    .filter(
      (line) => line !== "" && !/^(?:code |errno |syscall |A complete log|Note that you can also|path |\[)/.test(line),
    )
    .map((line) => line.replace(new RegExp(`^(?:${code}|\\d{3})\\s+`), ""))
    .slice(0, LINES_SHOWN)
    .join(" ");
  return new NpmFailed(code, withoutAddresses(said || `npm failed (${how})`).slice(0, SHOWN_UNITS));
}

const LINES_SHOWN = 6;
const SHOWN_UNITS = 800;

function withoutAddresses(said: string): string {
  return said
    .replaceAll(/https?:\/\/[^\s/]+/g, "")
    .replaceAll(/(^|[\s'"(])\/(?!-?@?[\w.%-]+(?:\s|$))[\w./@-]+/g, "$1…");
}

/** True for an error of npm's that says that a package, or this version of it, is not there. */
export function isGone(code: string): boolean {
  return code === "E404" || code === "ETARGET" || code === "ENOVERSIONS";
}

/** The sha512 of a package as npm's cache files it; undefined where it is none. */
export function cachePathOf(integrity: string): string | undefined {
  if (!isSha512(integrity)) return undefined;
  const hex = Buffer.from(integrity.slice("sha512-".length), "base64").toString("hex");
  return join("_cacache", "content-v2", "sha512", hex.slice(0, 2), hex.slice(2, 4), hex.slice(4));
}

/** The configuration of an author's npm: its cache and its registries. */
export async function npmConfigOf(
  place: Pick<NpmPlace, "cli" | "env" | "cwd">,
): Promise<{ readonly cache?: string; readonly registries: readonly string[] }> {
  const child = spawn(process.execPath, [place.cli, "config", "list", "--json", "--long", "--loglevel=error"], {
    cwd: place.cwd,
    env: place.env,
    stdio: ["ignore", "pipe", "ignore"],
  });
  const [text] = await Promise.all([textOf(child.stdout), once(child, "close")]).catch(() => [""]);
  const config = tryParseObject(text) ?? {};
  const { cache } = config;
  const registries = Object.entries(config)
    .filter(([name]) => name === "registry" || /^@[^:]+:registry$/.test(name))
    .flatMap(([, address]) => (typeof address === "string" && URL.canParse(address) ? [address] : []));
  return { ...(typeof cache === "string" && { cache }), registries };
}

function words(text: string): string[] {
  return text.split(" ");
}
