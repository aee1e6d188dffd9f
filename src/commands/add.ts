import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { findServerList, PACKAGE_JSON, PACKAGE_LOCK } from "../image/image.ts";
import { BerthError } from "../lib/errors.ts";
import { isObject, tryParseJson } from "../lib/json.ts";
import { prettyJson } from "../lib/pretty-json.ts";
import type { Problem } from "../lib/problem.ts";
import { famousLookalike } from "../packages/famous.ts";
import { findNpm, type FoundNpm } from "../packages/find-npm.ts";
import { readLock } from "../packages/lock.ts";
import { npmConfigOf } from "../packages/npm-runs.ts";
import { isPackageName, typesOf } from "../packages/package-name.ts";
import type { PackageSet } from "../packages/package-set.ts";
import { namedFromHere } from "./own-folder.ts";
import { counted, printProblems } from "./print-problems.ts";
import { packagesFolder } from "./project-packages.ts";

export interface AddOptions {
  /** The folder of sources. */
  readonly from?: string;
}

/**
 * `berth add PACKAGE…`: npm adds packages to a folder of sources, as `npm install` does, and never runs a script of
 * theirs. A package without types gets those of DefinitelyTyped, if there are any.
 */
export async function add(specs: readonly string[], { from }: AddOptions): Promise<number> {
  const wanted = specs.map(parseSpec);
  const folder = sourcesFolder(from);
  const npm = new NpmAt(findNpm(process.env), folder);
  for (const { name } of wanted) warnOfLookalike(name);
  await mkdir(folder, { recursive: true });
  const manifest = join(folder, PACKAGE_JSON);
  const isNew = !existsSync(manifest);
  if (isNew) writeFileSync(manifest, prettyJson({ private: true, type: "module" }));
  if (isNew) say(`Made ${shown(manifest)}.`);

  const before = await npm.read();
  await npm.run("install", ["--save-prod", "--", ...specs]);
  for (const { name } of wanted) {
    const types = await missingTypes(npm, name);
    // A package that looks for types later may do without: what was asked for is there.
    if (types !== undefined) await npm.run("install", ["--save-prod", "--", types]).catch(tellOf(types));
  }
  const { set, problems } = await npm.read();
  say(added(wanted, before.set, set, folder));
  for (const { name } of wanted) if (!name.startsWith("@types/")) say(`  ${typesTold(npm, name, set)}`);
  const known = new Set(before.problems.map(({ message }) => message));
  const news = problems.filter(({ severity, code, message }) => {
    return severity === "error" || (code !== "similar-name" && !known.has(message));
  });
  printProblems(namedFromHere(news, folder));
  return problems.some(({ severity }) => severity === "error") ? 1 : 0;
}

/** `berth remove PACKAGE…`: also removes types that `berth add` added. */
export async function remove(names: readonly string[], { from }: AddOptions): Promise<number> {
  const wrong = names.find((name) => !isPackageName(name));
  if (wrong !== undefined) throw new BerthError("config_invalid", `${JSON.stringify(wrong)} is no name of a package`);
  const folder = sourcesFolder(from);
  const npm = new NpmAt(findNpm(process.env), folder);
  const needs = dependenciesOf(folder);
  const missing = names.filter((name) => !needs.has(name));
  if (missing.length > 0) {
    const where = shown(join(folder, PACKAGE_JSON));
    throw new BerthError("config_invalid", `${missing.join(", ")} is not among the dependencies of ${where}`);
  }
  const types = names.map(typesOf).filter((name) => needs.has(name) && !names.includes(name));
  const { set: before } = await npm.read();
  await npm.run("uninstall", ["--", ...names, ...types]);
  const { set, problems } = await npm.read();
  const left = idsOf(set);
  const gone = [...idsOf(before)].filter((id) => !left.has(id));
  say(`Removed ${[...names, ...types].join(", ")} from ${shown(folder)} (${counted(gone.length, "package")} less).`);
  const errors = problems.filter(({ severity }) => severity === "error");
  printProblems(namedFromHere(errors, folder));
  return errors.length > 0 ? 1 : 0;
}

/**
 * Where definitions have their packages: the folder of sources at hand, or the nearest folder with a `package.json`, or
 * else the working folder.
 */
function sourcesFolder(from: string | undefined): string {
  if (from !== undefined) return resolve(from);
  const isSources = (folder: string): boolean => findServerList((name) => existsSync(join(folder, name))) !== undefined;
  const sources = [".", "reference_templates"].find(isSources);
  return sources === undefined ? packagesFolder(".") : resolve(sources);
}

interface Spec {
  readonly name: string;
  /** A range, a version, or a tag. */
  readonly range: string | undefined;
}

/** `name`, `name@range`, `@scope/name@range`; npm would take addresses and folders, too. */
function parseSpec(spec: string): Spec {
  const at = spec.indexOf("@", 1);
  const [name, range] = at < 0 ? [spec, undefined] : [spec.slice(0, at), spec.slice(at + 1)];
  if (!isPackageName(name) || (range !== undefined && !/^[\w.^~<>=|*+ -]+$/.test(range))) {
    const message = `"${spec}" is no package of the registry: write a name, or a name and a version (zod@4.1.0)`;
    throw new BerthError("config_invalid", message);
  }
  return { name, range };
}

function warnOfLookalike(name: string): void {
  const famous = famousLookalike(name);
  if (famous === undefined) return;
  say(`"${name}" differs by one letter from the well-known "${famous}": check that it is what you mean.`);
}

/** npm in a folder. */
class NpmAt {
  readonly #npm: FoundNpm;
  readonly #folder: string;

  constructor(npm: FoundNpm, folder: string) {
    this.#npm = npm;
    this.#folder = folder;
  }

  async run(command: string, args: readonly string[]): Promise<void> {
    const { code, signal } = await this.#start(command, args, "inherit");
    if (code === 0) return;
    const how = code === null ? `it was ended by ${signal}` : `exit code ${code}`;
    throw new BerthError("packages_unavailable", `npm ${command} failed (${how}), and says above why`);
  }

  /** The newest version in a range, as the registry has it; undefined where there is none. */
  async newest(spec: string): Promise<string | undefined> {
    const { code, stdout } = await this.#start("view", ["--json", "--", spec, "version"], "ignore");
    const found = code === 0 ? tryParseJson(stdout) : undefined;
    const newest: unknown = Array.isArray(found) ? found.at(-1) : found;
    return typeof newest === "string" ? newest : undefined;
  }

  /** The set that npm has locked, with everything that is wrong with it. */
  async read(): Promise<{ set?: PackageSet; problems: Problem[] }> {
    const texts = [PACKAGE_JSON, PACKAGE_LOCK].map((file) => ({ file, text: this.#text(file) }));
    const [packageJson, lock] = texts as [(typeof texts)[0], (typeof texts)[0]];
    if (lock.text === "" || packageJson.text === "") return { problems: [] };
    const found = readLock(packageJson, lock);
    if (!found.problems.some(({ code }) => code === "not-of-registry")) return found;
    const { registries } = await npmConfigOf({ cli: this.#npm.cli, env: process.env, cwd: this.#folder });
    return readLock(packageJson, lock, { registries });
  }

  /** True if an installed package says what types it has. */
  hasTypes(name: string): boolean {
    const installed = join(this.#folder, "node_modules", name);
    try {
      const manifest: unknown = JSON.parse(readFileSync(join(installed, PACKAGE_JSON), "utf8"));
      if (!isObject(manifest)) return false;
      const { types, typings, main = "index.js", exports = null } = manifest;
      if (types !== undefined || typings !== undefined) return true;
      const targets = JSON.stringify(["index.js", main, exports]);
      if (/"types[@"]|\.d\.[cm]?ts"/.test(targets)) return true;
      const code = Array.from(targets.matchAll(/"([^"*]+?)(?:\.([cm]?)js)?"/g)).slice(0, TARGETS_MAX);
      return code.some(([, name, kind = ""]) => existsSync(join(installed, `${name}.d.${kind}ts`)));
    } catch {
      return false;
    }
  }

  #text(file: string): string {
    return existsSync(join(this.#folder, file)) ? readFileSync(join(this.#folder, file), "utf8") : "";
  }

  async #start(command: string, args: readonly string[], stderr: "inherit" | "ignore") {
    const quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"];
    // Without a prefix npm would take the folder of a workspace above this one.
    const argv = [this.#npm.cli, command, ...quiet, `--prefix=${this.#folder}`, "--no-workspaces", ...args];
    const child = spawn(process.execPath, argv, { cwd: this.#folder, stdio: ["ignore", "pipe", stderr] });
    const [stdout, ended] = await Promise.all([text(child.stdout), once(child, "close")]);
    const [code, signal] = ended as [number | null, string | null];
    return { code, signal, stdout };
  }
}

/** The entries of a package next to which types are looked for. */
const TARGETS_MAX = 100;

/** The package with the types of another one that has none, as npm takes it; undefined where it needs, or has, none. */
async function missingTypes(npm: NpmAt, name: string): Promise<string | undefined> {
  const { set } = await npm.read();
  const types = typesOf(name);
  const installed = set?.packages[`node_modules/${name}`];
  if (!installed || name.startsWith("@types/") || `node_modules/${types}` in (set?.packages ?? {})) return undefined;
  if (npm.hasTypes(name)) return undefined;
  const [major, minor] = installed.version.split(".");
  const same = major === "0" ? `${types}@0.${minor}` : `${types}@${major}`;
  if ((await npm.newest(same)) !== undefined) return same;
  return (await npm.newest(types)) === undefined ? undefined : types;
}

function tellOf(types: string): (error: unknown) => void {
  return (error) => {
    if (!(error instanceof BerthError)) throw error;
    say(`${types} could not be added: ${error.message}`);
  };
}

/** `Added zod 4.1.0 and papaparse 5.5.3 to reference_templates (4 packages more).` */
function added(
  wanted: readonly Spec[],
  before: PackageSet | undefined,
  after: PackageSet | undefined,
  folder: string,
): string {
  const named = wanted.map(({ name }) => {
    const version = after?.packages[`node_modules/${name}`]?.version;
    return version === undefined ? name : `${name} ${version}`;
  });
  const known = idsOf(before);
  const more = [...idsOf(after)].filter((id) => !known.has(id)).length;
  return `Added ${named.join(", ")} to ${shown(folder)} (${counted(more, "package")} more).`;
}

function typesTold(npm: NpmAt, name: string, set: PackageSet | undefined): string {
  const types = set?.packages[`node_modules/${typesOf(name)}`];
  if (types) return `${name} has the types of ${types.name} ${types.version}.`;
  if (npm.hasTypes(name)) return `${name} has types of its own.`;
  return `${name} has no types: its values are any, and schemas say nothing of them.`;
}

function idsOf(set: PackageSet | undefined): Set<string> {
  return new Set(Object.values(set?.packages ?? {}).map(({ name, version }) => `${name}@${version}`));
}

function dependenciesOf(folder: string): Set<string> {
  try {
    const manifest: unknown = JSON.parse(readFileSync(join(folder, PACKAGE_JSON), "utf8"));
    const dependencies = isObject(manifest) ? manifest["dependencies"] : undefined;
    return new Set(Object.keys(isObject(dependencies) ? dependencies : {}));
  } catch {
    return new Set();
  }
}

function shown(path: string): string {
  return relative(process.cwd(), path) || ".";
}

function say(line: string): void {
  console.error(line);
}
