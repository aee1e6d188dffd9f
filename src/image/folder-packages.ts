import type { DefinitionSource } from "../discover/discovery.ts";
import { findPackageImports } from "../discover/files/imports.ts";
import { rawBlock, type Block, type Cid } from "../lib/cid.ts";
import { BerthError } from "../lib/errors.ts";
import { parseJsonSource, problemAt, type JsonNode } from "../lib/json-source.ts";
import type { JsonObject } from "../lib/json.ts";
import { prettyJson } from "../lib/pretty-json.ts";
import type { Problem } from "../lib/problem.ts";
import type { FetchedSet, HaveTarball } from "../packages/fetch-set.ts";
import { readLock, type NamedText } from "../packages/lock.ts";
import { integrityOf } from "../packages/npm-runs.ts";
import { packageName, typesOf } from "../packages/package-name.ts";
import { isVariant, PACKAGES, packagesInReach, readPackageSet, type PackageSet } from "../packages/package-set.ts";
import { PACKAGE_JSON, PACKAGE_LOCK, type Image } from "./image.ts";
import { readImage } from "./read.ts";
import { isFault, type SourceFolder } from "./source-folder.ts";

/**
 * The npm packages of a folder of sources: those that its `package.json` requires and its `package-lock.json` pins, as
 * npm writes both. Callers that generate an image or serve a file get a package set with its tarballs. Knows neither
 * how npm works nor what imports the packages.
 */
export type FolderPackages = FetchedSet;

/** Fetches missing tarballs. Rejects with a `BerthError` that says which package could not be fetched, and why. */
export type FetchPackages = (set: PackageSet, have: HaveTarball) => Promise<FetchedSet>;

interface FolderPackagesOptions {
  readonly fetch: FetchPackages;
  readonly have: HaveTarball;
  /** The registries in use besides the public one; called if the lock names another. */
  readonly registries?: () => Promise<readonly string[]>;
  /** The specifiers that count; by default, all dependencies do. */
  readonly imported?: Iterable<string>;
}

/** The packages of a folder; undefined if it has none, or if `problems` has an error that says why. */
export async function readFolderPackages(
  folder: SourceFolder,
  problems: Problem[],
  options: FolderPackagesOptions,
): Promise<FolderPackages | undefined> {
  let lock: NamedText | undefined;
  try {
    const locked = await readLocked(folder, problems, options, (text) => (lock = text));
    return locked && (await withTarballs(locked, options));
  } catch (error) {
    if (!(error instanceof BerthError)) throw error;
    problems.push(asProblem(error, lock));
    return undefined;
  }
}

/** Points to the line of the package that the error is about, if any. */
function asProblem({ code, message, data }: BerthError, lock: NamedText | undefined): Problem {
  const packageId = data?.["package"];
  const lines = lock && parseJsonSource(lock.file, lock.text).root?.members?.get("packages")?.node.members;
  const line = [...(lines ?? [])].find(([path, { node }]) => {
    const { name = path.slice(path.lastIndexOf(FOLDER) + FOLDER.length), version } = node.value as JsonObject;
    return typeof name === "string" && typeof version === "string" && `${name}@${version}` === packageId;
  });
  const [position, problem] = [line?.[1].at, { code: code.replaceAll("_", "-"), message, severity: "error" } as const];
  return position ? problemAt(position, problem.code, message) : { ...problem, file: PACKAGE_LOCK };
}

const FOLDER = "node_modules/";

async function readLocked(
  folder: SourceFolder,
  problems: Problem[],
  { imported, registries }: FolderPackagesOptions,
  onLock: (lock: NamedText) => void,
): Promise<PackageSet | undefined> {
  const manifestText = readOptional(folder, PACKAGE_JSON, problems);
  if (manifestText === undefined) return undefined;
  const parsed = parseJsonSource(PACKAGE_JSON, manifestText);
  problems.push(...parsed.problems);
  const requirements = parsed.root && readRequirements(parsed.root);
  if (!requirements || requirements.size === 0) return undefined;
  const specifiers = imported && [...imported].filter((specifier) => requirements.has(packageName(specifier)));
  if (specifiers?.length === 0) return undefined;
  problems.push(...misplacedPackages(parsed.root!, requirements));

  const first = requirements.values().next().value!;
  const lock = readOptional(folder, PACKAGE_LOCK, problems);
  if (lock === undefined) {
    const message =
      `There is no ${PACKAGE_LOCK} next to it to pin the versions of these packages: run npm install, or ` +
      "npm install --package-lock-only, in this folder";
    problems.push(problemAt(first.at, "missing-lock", message));
    return undefined;
  }
  const texts = [
    { file: PACKAGE_JSON, text: manifestText },
    { file: PACKAGE_LOCK, text: lock },
  ] as const;
  onLock(texts[1]);
  let read = readLock(...texts);
  if (registries && read.problems.some(({ code }) => code === "not-of-registry"))
    read = readLock(...texts, { registries: await registries() });
  problems.push(...read.problems);
  if (!read.set || Object.keys(read.set.packages).length === 0) return undefined;
  return specifiers ? limitToImports(read.set, specifiers) : read.set;
}

/** Undefined if there is no such file, or if it cannot be read, which is a problem. */
function readOptional(folder: SourceFolder, path: string, problems: Problem[]): string | undefined {
  const file = folder.readText(path);
  if (!isFault(file)) return file.text;
  if (file.code !== "missing-file") problems.push({ ...file, severity: "error", file: path });
  return undefined;
}

const NEEDS = ["dependencies", "optionalDependencies"];

/** The packages that definitions may import, by name. */
function readRequirements(root: JsonNode): ReadonlyMap<string, JsonNode> {
  const members = NEEDS.flatMap((field) => Array.from(root.members?.get(field)?.node.members ?? []));
  return new Map(members.map(([name, { node }]) => [name, node]));
}

/** Problems of packages in the wrong list: types that no definition sees, and Berth itself, which none imports. */
function misplacedPackages(root: JsonNode, requirements: ReadonlyMap<string, JsonNode>): Problem[] {
  const types = new Map(Array.from(requirements.keys(), (name) => [typesOf(name), name]));
  const unusedTypes = [...(root.members?.get("devDependencies")?.node.members ?? [])].flatMap(([name, { at }]) => {
    if (requirements.has(name) || !types.has(name)) return [];
    const message =
      `Definitions see the types of "${types.get(name)!}" only if "${name}" is among the dependencies: move it there ` +
      `with npm install --save-prod ${name}`;
    return [problemAt(at, "types-unseen", message, "warning")];
  });
  const own = requirements.get(OWN_PACKAGE);
  if (!own) return unusedTypes;
  const message = `No definition imports "${OWN_PACKAGE}", and all that it requires would become part of the image: move it to the devDependencies`;
  return [...unusedTypes, problemAt(own.at, "needless-package", message, "warning")];
}

const OWN_PACKAGE = "berth-mcp";

/** The part of a set without tarballs that imports reach; undefined if they reach nothing. */
function limitToImports(set: PackageSet, specifiers: Iterable<string>): PackageSet | undefined {
  const stored = Object.entries(set.packages)
    .filter(([, locked]) => !isVariant(locked))
    .map(([path, locked]) => [path, { ...locked, tarball: "to be fetched" }]);
  const reached = packagesInReach({ ...set, packages: Object.fromEntries(stored) }, specifiers);
  if (!reached) return undefined;
  const [names, paths] = [Object.keys(reached.dependencies), Object.keys(reached.packages)];
  return {
    dependencies: Object.fromEntries(names.map((name) => [name, set.dependencies[name]!])),
    packages: Object.fromEntries(paths.map((path) => [path, set.packages[path]!])),
  };
}

/** Fetches nothing if all tarballs are available. */
async function withTarballs(set: PackageSet, { fetch, have }: FolderPackagesOptions): Promise<FolderPackages> {
  const available = new Map<string, Block>();
  for (const { integrity } of Object.values(set.packages).filter((locked) => !isVariant(locked))) {
    const bytes = await have(integrity);
    if (!bytes || integrityOf(bytes) !== integrity) {
      return fetch(set, async (wantedIntegrity) => available.get(wantedIntegrity)?.bytes ?? have(wantedIntegrity));
    }
    available.set(integrity, rawBlock(bytes));
  }
  const packages = Object.entries(set.packages).map(([path, locked]) => {
    const tarball = available.get(locked.integrity)?.cid;
    return [path, tarball === undefined ? locked : { ...locked, tarball }] as const;
  });
  return { set: { ...set, packages: Object.fromEntries(packages) }, blocks: [...available.values()] };
}

/** The value of the variable `packages`, the same for the same lock on every machine, followed by all tarballs. */
export function packageBlocks(packages: FolderPackages | undefined): [] | [Block, ...Block[]] {
  if (!packages) return [];
  return [rawBlock(prettyJson({ ...packages.set, npm: undefined })), ...packages.blocks];
}

/** A definition with the packages of the set that it imports. */
export function withPackages(source: DefinitionSource, set: PackageSet | undefined): DefinitionSource {
  const packages = set && packagesInReach(set, findPackageImports(source));
  return packages ? { ...source, packages } : source;
}

/** The tarballs in the image of a folder, if there is one. */
export function openImageTarballs(out: string): HaveTarball {
  let lookUp: Promise<(integrity: string) => Uint8Array | undefined> | undefined;
  return async (integrity) => {
    lookUp ??= readImage(out, "default").then(indexTarballs, () => () => undefined);
    return (await lookUp)(integrity);
  };
}

function indexTarballs(image: Image): (integrity: string) => Uint8Array | undefined {
  const variable = image.manifest.variables.find(({ name }) => name === PACKAGES);
  const read = (cid: Cid): Uint8Array | undefined => {
    try {
      return image.content(cid);
    } catch (error) {
      if (error instanceof BerthError && error.code === "image_invalid") return undefined;
      throw error;
    }
  };
  const value = variable && read(variable.definition_cid);
  const set = value && readPackageSet(new TextDecoder().decode(value));
  const cids = new Map(Object.values(set?.packages ?? {}).map(({ integrity, tarball }) => [integrity, tarball]));
  return (integrity) => {
    const cid = cids.get(integrity);
    return cid === undefined ? undefined : read(cid);
  };
}
