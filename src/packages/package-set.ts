import { isCid, jsonBlock, type Cid } from "../lib/cid.ts";
import { isObject } from "../lib/json.ts";
import { compareText } from "../lib/pretty-json.ts";

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
}

/** One package of a set. */
export interface LockedPackage {
  readonly name: string;
  readonly version: string;
  /** The sha512 of the tarball, as npm writes it: `sha512-…`, in base64. */
  readonly integrity: string;
  /** The `raw` CID of the tarball. Absent for a variant for some machines alone, which no bundle can hold. */
  readonly tarball?: Cid;
  /** The names of what it may import, sorted: dependencies, optional and peer ones, too. */
  readonly dependencies?: readonly string[];
  /** The machines that a variant is for, as in its `package.json`. */
  readonly os?: readonly string[];
  readonly cpu?: readonly string[];
  readonly libc?: readonly string[];
}

/** The part of a set that one definition can reach. Its CID stands in the release, and in the key of what is compiled. */
export type PackagesInReach = Pick<PackageSet, "packages">;

/** The packages that `specifiers` of imports lead to, with all that those may import; undefined where they lead to none. */
export function packagesInReach(
  set: PackageSet | undefined,
  specifiers: Iterable<string>,
): PackagesInReach | undefined {
  if (!set) return undefined;
  const reached = new Map<string, LockedPackage>();
  const wanted = [...specifiers].map((specifier) => ({ name: packageName(specifier), from: "" }));
  for (const { name, from } of wanted) {
    if (from === "" && !Object.hasOwn(set.dependencies, name)) continue;
    for (const each of [name, typesOf(name)]) {
      const place = placeOf(set, each, from);
      if (place === undefined || reached.has(place)) continue;
      const found = set.packages[place]!;
      if (found.tarball === undefined) continue;
      reached.set(place, found);
      for (const needed of found.dependencies ?? []) wanted.push({ name: needed, from: place });
    }
  }
  if (reached.size === 0) return undefined;
  return { packages: Object.fromEntries([...reached].sort(([one], [other]) => compareText(one, other))) };
}

/** The place where Node finds a package from another one's place; "" stands for a definition. */
export function placeOf({ packages }: PackagesInReach, name: string, from: string): string | undefined {
  for (let place = from; ; place = place.slice(0, Math.max(0, place.lastIndexOf("/node_modules/")))) {
    const found = place === "" ? `node_modules/${name}` : `${place}/node_modules/${name}`;
    if (Object.hasOwn(packages, found)) return found;
    if (place === "") return undefined;
  }
}

export function packagesCid(packages: PackagesInReach): Cid {
  return jsonBlock(packages).cid;
}

/** `@scope/name/sub` → `@scope/name`. */
export function packageName(specifier: string): string {
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}

/** The package with the types of another one that has none: `@types/name`, `@types/scope__name`. */
export function typesOf(name: string): string {
  return `@types/${name.replace(/^@/, "").replace("/", "__")}`;
}

/** Reads what `packagesInReach` gave from its content; undefined for anything else. */
export function asPackagesInReach(value: unknown): PackagesInReach | undefined {
  if (!isObject(value) || !isObject(value["packages"])) return undefined;
  return Object.values(value["packages"]).every(isLockedPackage) ? (value as unknown as PackagesInReach) : undefined;
}

export function isLockedPackage(value: unknown): value is LockedPackage {
  if (!isObject(value)) return false;
  const { name, version, integrity, tarball, dependencies, os, cpu, libc } = value;
  return (
    [name, version, integrity].every((text) => typeof text === "string") &&
    (tarball === undefined || (typeof tarball === "string" && isCid(tarball))) &&
    [dependencies, os, cpu, libc].every((list) => list === undefined || isTexts(list))
  );
}

function isTexts(list: unknown): boolean {
  return Array.isArray(list) && list.every((text) => typeof text === "string");
}
