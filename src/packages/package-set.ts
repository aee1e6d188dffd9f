import { isCid, type Cid } from "../lib/cid.ts";
import { hasMoreValues, isObject, nestsTooDeep } from "../lib/json.ts";
import { compareText } from "../lib/pretty-json.ts";
import { isExactVersion, isPackageName, namesInPlace, NODE_TYPES, packageName, typesOf } from "./package-name.ts";

/**
 * The npm packages that definitions may import: what was asked for, and what npm made of it. A set is plain data, the
 * same on every machine: where each package lies in `node_modules`, its version, and the hash and CID of its tarball. This
 * room owns how sets come about; it must not know what imports them.
 */
export interface PackageSet {
  /** The packages that definitions may name, with their ranges, as in a `package.json`. */
  readonly dependencies: Readonly<Record<string, string>>;
  /** The version of npm that resolved them, where it is known. */
  readonly npm?: string;
  /** By their places, as a `package-lock.json` writes them: `node_modules/a/node_modules/b`. */
  readonly packages: Readonly<Record<string, LockedPackage>>;
  /**
   * By place, what else npm's lock says: with it npm keeps what it once resolved when it resolves again. It is no part
   * of what definitions reach.
   */
  readonly lines?: Readonly<Record<string, LockLine>>;
}

/** Fields of a line of `package-lock.json`, as npm writes them. */
export interface LockLine {
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>;
  readonly hasInstallScript?: boolean;
  readonly optional?: boolean;
  readonly peer?: boolean;
}

/** One package of a set. */
export interface LockedPackage {
  readonly name: string;
  readonly version: string;
  /** The sha512 of the tarball, as npm writes it: `sha512-…`, in base64. */
  readonly integrity: string;
  /** The `raw` CID of the tarball. Absent for a variant for some machines alone, which no bundle can hold. */
  readonly tarball?: Cid;
  /** The tarball was given with the set: no registry says that these bytes have this name and version. */
  readonly supplied?: true;
  /** The names of what it may import, sorted: dependencies, optional and peer ones, too. */
  readonly dependencies?: readonly string[];
  /** The machines that a variant is for, as in its `package.json`. */
  readonly os?: readonly string[];
  readonly cpu?: readonly string[];
  readonly libc?: readonly string[];
}

/**
 * The part of a set that one definition can reach, whose `dependencies` are versions instead of ranges. Its CID stands in
 * the release, and in the key of what is compiled.
 */
export type PackagesInReach = Omit<PackageSet, "npm" | "lines">;

/** The name of the variable whose value is a tenant's set, as JSON. */
export const PACKAGES = "packages";

/** The packages that `specifiers` of imports lead to, with all that those may import; undefined where they lead to none. */
export function packagesInReach(
  set: PackageSet | undefined,
  specifiers: Iterable<string>,
): PackagesInReach | undefined {
  if (!set) return undefined;
  const reached = new Map<string, LockedPackage>();
  const named: Record<string, string> = {};
  const imported = Array.from(specifiers, packageName).flatMap((name) =>
    [name, typesOf(name)].filter((each) => Object.hasOwn(set.dependencies, each)).slice(0, 1),
  );
  // Declarations of packages speak of Node's classes, and few of them say where those are declared.
  const types = imported.length > 0 && Object.hasOwn(set.dependencies, NODE_TYPES) ? [NODE_TYPES] : [];
  const wanted = [...imported, ...types].map((name) => ({ name, from: "" }));
  for (const { name, from } of wanted) {
    for (const each of [name, typesOf(name)]) {
      const place = placeOf(set, each, from);
      if (place === undefined || reached.has(place)) continue;
      const found = set.packages[place]!;
      if (found.tarball === undefined) continue;
      reached.set(place, found);
      if (from === "" && each === name) named[name] = found.version;
      for (const needed of found.dependencies ?? []) wanted.push({ name: needed, from: place });
    }
  }
  if (reached.size === 0) return undefined;
  const dependencies = Object.fromEntries(Object.entries(named).sort(([one], [other]) => compareText(one, other)));
  return { dependencies, packages: Object.fromEntries([...reached].sort(([one], [other]) => compareText(one, other))) };
}

/** The place where Node finds a package from another one's place; "" stands for a definition. */
export function placeOf({ packages }: Pick<PackageSet, "packages">, name: string, from: string): string | undefined {
  for (let place = from; ; place = place.slice(0, Math.max(0, place.lastIndexOf("/node_modules/")))) {
    const found = place === "" ? `node_modules/${name}` : `${place}/node_modules/${name}`;
    if (Object.hasOwn(packages, found)) return found;
    if (place === "") return undefined;
  }
}

/**
 * Parses the text of a set, or of a message with one; undefined when it has more values than any real set or nests too
 * deep. Values are counted first: it takes longer to build an object of tens of thousands of members than to read them.
 */
export function parsePackages(text: string): unknown {
  if (hasMoreValues(text, SET_VALUES_MAX)) return undefined;
  const value: unknown = JSON.parse(text);
  return nestsTooDeep(value, text.length) ? undefined : value;
}

/** A set of a thousand packages has about 25,000 values. */
export const SET_VALUES_MAX = 40_000;

/** The set in the text of a variable; undefined if the text is not a set. */
export function readPackageSet(text: string): PackageSet | undefined {
  try {
    return asPackageSet(parsePackages(text));
  } catch {
    return undefined;
  }
}

/** The set that a value holds; undefined for anything else. Whether its tarballs are there, others have to see. */
export function asPackageSet(value: unknown): PackageSet | undefined {
  if (!isObject(value) || !isObject(value["packages"]) || !isTextRecord(value["dependencies"])) return undefined;
  const { npm, dependencies, packages, lines = {} } = value;
  if (npm !== undefined && typeof npm !== "string") return undefined;
  if (!Object.keys(dependencies as object).every(isPackageName)) return undefined;
  const isSound = Object.entries(packages as object).every(
    ([place, each]) =>
      namesInPlace(place) &&
      isLockedPackage(each) &&
      isPackageName(each.name) &&
      isExactVersion(each.version) &&
      isSha512(each.integrity),
  );
  if (!isSound || !isObject(lines)) return undefined;
  const areSound = Object.entries(lines).every(
    ([place, line]) => Object.hasOwn(packages as object, place) && isLockLine(line),
  );
  return areSound ? (value as unknown as PackageSet) : undefined;
}

/** True for a package for some machines alone. */
export function isVariant({ os, cpu, libc }: LockedPackage): boolean {
  return os !== undefined || cpu !== undefined || libc !== undefined;
}

/** True for a sha512 as npm writes it. */
export function isSha512(integrity: string): boolean {
  return /^sha512-[A-Za-z0-9+/]{86}==$/.test(integrity);
}

function isLockedPackage(value: unknown): value is LockedPackage {
  if (!isObject(value)) return false;
  const { name, version, integrity, tarball, dependencies, os, cpu, libc } = value;
  return (
    [name, version, integrity].every((text) => typeof text === "string") &&
    (tarball === undefined || (typeof tarball === "string" && isCid(tarball))) &&
    [dependencies, os, cpu, libc].every((list) => list === undefined || isTexts(list))
  );
}

/** The dependencies of one package. */
export const NEEDS_MAX = 2_000;

export function isTexts(list: unknown): boolean {
  return Array.isArray(list) && list.length <= NEEDS_MAX && list.every((text) => typeof text === "string");
}

function isLockLine(value: unknown): value is LockLine {
  if (!isObject(value)) return false;
  const { peerDependenciesMeta: meta = {}, hasInstallScript, optional, peer } = value;
  const needs = [value["dependencies"], value["optionalDependencies"], value["peerDependencies"]];
  return (
    needs.every((each) => each === undefined || isTextRecord(each)) &&
    isObject(meta) &&
    Object.values(meta).every(isObject) &&
    [hasInstallScript, optional, peer].every((each) => each === undefined || typeof each === "boolean")
  );
}

function isTextRecord(value: unknown): value is Record<string, string> {
  return isObject(value) && isTexts(Object.values(value));
}
