import type { DefinitionSource } from "../discover/discovery.ts";
import { packageImports } from "../discover/files/imports.ts";
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
 * The npm packages of a folder of sources: what its `package.json` asks for and its `package-lock.json` pins, as npm
 * writes both. Whoever makes an image or serves a file gets a package set of them with its tarballs. How npm works, and
 * what imports the packages, others know.
 */
export type FolderPackages = FetchedSet;

/** Fetches what is not at hand. Rejects with a `BerthError` that says which package could not be had, and why. */
export type FetchPackages = (set: PackageSet, have: HaveTarball) => Promise<FetchedSet>;

interface FolderPackagesOptions {
  readonly fetch: FetchPackages;
  readonly have: HaveTarball;
  /** The registries in use besides the public one; asked for where the lock names another. */
  readonly registries?: () => Promise<readonly string[]>;
  /** The specifiers that count; without it, all dependencies do. */
  readonly imported?: Iterable<string>;
}

/** The packages of a folder; undefined where it asks for none, and where `problems` has an error that says why. */
export async function readFolderPackages(
  folder: SourceFolder,
  problems: Problem[],
  options: FolderPackagesOptions,
): Promise<FolderPackages | undefined> {
  let lock: NamedText | undefined;
  try {
    const locked = await lockedPackages(folder, problems, options, (found) => (lock = found));
    return locked && (await withTarballs(locked, options));
  } catch (error) {
    if (!(error instanceof BerthError)) throw error;
    problems.push(asProblem(error, lock));
    return undefined;
  }
}

/** Shown at the line of the package that it is about, if it is about one. */
function asProblem({ code, message, data }: BerthError, lock: NamedText | undefined): Problem {
  const about = data?.["package"];
  const lines = lock && parseJsonSource(lock.file, lock.text).root?.members?.get("packages")?.node.members;
  const line = [...(lines ?? [])].find(([place, { node }]) => {
    const { name = place.slice(place.lastIndexOf(FOLDER) + FOLDER.length), version } = node.value as JsonObject;
    return typeof name === "string" && typeof version === "string" && `${name}@${version}` === about;
  });
  const [of, problem] = [line?.[1].at, { code: code.replaceAll("_", "-"), message, severity: "error" } as const];
  return of ? problemAt(of, problem.code, message) : { ...problem, file: PACKAGE_LOCK };
}

const FOLDER = "node_modules/";

async function lockedPackages(
  folder: SourceFolder,
  problems: Problem[],
  { imported, registries }: FolderPackagesOptions,
  onLock: (lock: NamedText) => void,
): Promise<PackageSet | undefined> {
  const wanted = textOf(folder, PACKAGE_JSON, problems);
  if (wanted === undefined) return undefined;
  const parsed = parseJsonSource(PACKAGE_JSON, wanted);
  problems.push(...parsed.problems);
  const needs = parsed.root && needsIn(parsed.root);
  if (!needs || needs.size === 0) return undefined;
  const specifiers = imported && [...imported].filter((specifier) => needs.has(packageName(specifier)));
  if (specifiers?.length === 0) return undefined;
  problems.push(...misplaced(parsed.root!, needs));

  const first = needs.values().next().value!;
  const lock = textOf(folder, PACKAGE_LOCK, problems);
  if (lock === undefined) {
    const message =
      `There is no ${PACKAGE_LOCK} beside it, so nothing says which versions these packages have: run npm install, or ` +
      "npm install --package-lock-only, in this folder";
    problems.push(problemAt(first.at, "missing-lock", message));
    return undefined;
  }
  const texts = [
    { file: PACKAGE_JSON, text: wanted },
    { file: PACKAGE_LOCK, text: lock },
  ] as const;
  onLock(texts[1]);
  let read = readLock(...texts);
  if (registries && read.problems.some(({ code }) => code === "not-of-registry"))
    read = readLock(...texts, { registries: await registries() });
  problems.push(...read.problems);
  if (!read.set || Object.keys(read.set.packages).length === 0) return undefined;
  return specifiers ? reachedBy(read.set, specifiers) : read.set;
}

/** Undefined where there is no such file, and for one that cannot be read, which is a problem. */
function textOf(folder: SourceFolder, path: string, problems: Problem[]): string | undefined {
  const file = folder.readText(path);
  if (!isFault(file)) return file.text;
  if (file.code !== "missing-file") problems.push({ ...file, severity: "error", file: path });
  return undefined;
}

const NEEDS = ["dependencies", "optionalDependencies"];

/** The packages that definitions may import, by name. */
function needsIn(root: JsonNode): ReadonlyMap<string, JsonNode> {
  const members = NEEDS.flatMap((field) => Array.from(root.members?.get(field)?.node.members ?? []));
  return new Map(members.map(([name, { node }]) => [name, node]));
}

/** Problems of what stands in the wrong list: types that no definition sees, and Berth itself, which none imports. */
function misplaced(root: JsonNode, needs: ReadonlyMap<string, JsonNode>): Problem[] {
  const types = new Map(Array.from(needs.keys(), (name) => [typesOf(name), name]));
  const unseen = [...(root.members?.get("devDependencies")?.node.members ?? [])].flatMap(([name, { at }]) => {
    if (needs.has(name) || !types.has(name)) return [];
    const message =
      `Definitions see the types of "${types.get(name)!}" only if "${name}" is among the dependencies: move it there ` +
      `with npm install --save-prod ${name}`;
    return [problemAt(at, "types-unseen", message, "warning")];
  });
  const own = needs.get(OWN_PACKAGE);
  if (!own) return unseen;
  const message = `No definition imports "${OWN_PACKAGE}", and all that it needs gets into the image: move it to the devDependencies`;
  return [...unseen, problemAt(own.at, "needless-package", message, "warning")];
}

const OWN_PACKAGE = "berth-mcp";

/** The part of a set without tarballs that imports lead to; undefined where they lead to nothing. */
function reachedBy(set: PackageSet, specifiers: Iterable<string>): PackageSet | undefined {
  const stored = Object.entries(set.packages)
    .filter(([, each]) => !isVariant(each))
    .map(([place, each]) => [place, { ...each, tarball: "to be fetched" }]);
  const reached = packagesInReach({ ...set, packages: Object.fromEntries(stored) }, specifiers);
  if (!reached) return undefined;
  const [names, places] = [Object.keys(reached.dependencies), Object.keys(reached.packages)];
  return {
    dependencies: Object.fromEntries(names.map((name) => [name, set.dependencies[name]!])),
    packages: Object.fromEntries(places.map((place) => [place, set.packages[place]!])),
  };
}

/** Fetches nothing where all tarballs are at hand. */
async function withTarballs(set: PackageSet, { fetch, have }: FolderPackagesOptions): Promise<FolderPackages> {
  const held = new Map<string, Block>();
  for (const { integrity } of Object.values(set.packages).filter((each) => !isVariant(each))) {
    const bytes = await have(integrity);
    if (!bytes || integrityOf(bytes) !== integrity) {
      return fetch(set, async (each) => held.get(each)?.bytes ?? have(each));
    }
    held.set(integrity, rawBlock(bytes));
  }
  const packages = Object.entries(set.packages).map(([place, each]) => {
    const tarball = held.get(each.integrity)?.cid;
    return [place, tarball === undefined ? each : { ...each, tarball }] as const;
  });
  return { set: { ...set, packages: Object.fromEntries(packages) }, blocks: [...held.values()] };
}

/** The value of the variable `packages`, the same for the same lock wherever it is made, and then every tarball. */
export function packageBlocks(packages: FolderPackages | undefined): [] | [Block, ...Block[]] {
  if (!packages) return [];
  return [rawBlock(prettyJson({ ...packages.set, npm: undefined })), ...packages.blocks];
}

/** A definition with the packages of the set that it imports. */
export function withPackages(source: DefinitionSource, set: PackageSet | undefined): DefinitionSource {
  const packages = set && packagesInReach(set, packageImports(source));
  return packages ? { ...source, packages } : source;
}

/** The tarballs that the image in a folder holds, if there is one. */
export function tarballsOfImage(out: string): HaveTarball {
  let held: Promise<(integrity: string) => Uint8Array | undefined> | undefined;
  return async (integrity) => {
    held ??= readImage(out, "default").then(tarballsIn, () => () => undefined);
    return (await held)(integrity);
  };
}

function tarballsIn(image: Image): (integrity: string) => Uint8Array | undefined {
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
