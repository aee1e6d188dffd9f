import { addProblem, inside, type ConfigPlace } from "../entry/config-place.ts";
import { isCid, isStructure } from "../lib/cid.ts";
import { cutText } from "../lib/cut-text.ts";
import { createYielder } from "../lib/event-loop.ts";
import { isObject } from "../lib/json.ts";
import type { Problem } from "../lib/problem.ts";
import { needProblem } from "../packages/lock.ts";
import { isExactVersion, isPackageName, namesInPlace } from "../packages/package-name.ts";
import {
  asPackageSet,
  isSha512,
  isTexts,
  isVariant,
  NEEDS_MAX,
  placeOf,
  SET_VALUES_MAX,
  type LockedPackage,
  type PackageSet,
} from "../packages/package-set.ts";
import { setBounds } from "../packages/set-bounds.ts";

/** A value of the variable `packages`: a resolved set, or a request to resolve one. */
export type ParsedPackages =
  | { readonly kind: "set"; readonly set: PackageSet }
  | { readonly kind: "wish"; readonly dependencies: Readonly<Record<string, string>> }
  | { readonly kind: "wrong"; readonly problems: readonly Problem[] };

const SET_FIELDS = ["dependencies", "npm", "packages", "lines"];
const PACKAGE_FIELDS = ["name", "version", "integrity", "tarball", "supplied", "dependencies", "os", "cpu", "libc"];
/** Quoted text is truncated to this length. */
const QUOTED_UNITS = 120;

/**
 * Parses the JSON value of the variable (undefined if it has too many values), with all its problems and their
 * positions. Does not look up tarballs.
 */
export async function parsePackageVariable(value: unknown): Promise<ParsedPackages> {
  const place: ConfigPlace = { pointer: "", problems: [] };
  const { problems } = place;
  const invalid = (): ParsedPackages => ({ kind: "wrong", problems });
  if (!isObject(value)) {
    const what = `an object such as {"dependencies": {"zod": "^4"}}, with at most ${SET_VALUES_MAX} values`;
    addProblem(place, "wrong-type", `The variable packages must be ${what}`);
    return invalid();
  }
  for (const field of Object.keys(value)) {
    if (SET_FIELDS.includes(field)) continue;
    const message = `A set of packages has no field ${quoted(field)}; its fields are ${SET_FIELDS.join(", ")}`;
    addProblem(inside(place, field), "unknown-field", message);
  }
  const { dependencies, npm, packages, lines } = value;
  if (npm !== undefined && typeof npm !== "string")
    addProblem(inside(place, "npm"), "wrong-type", '"npm" must be a string');
  await checkDependencies(dependencies, inside(place, "dependencies"));
  if (packages === undefined) {
    if (lines !== undefined || npm !== undefined) {
      addProblem(
        place,
        "missing-packages",
        'A set has "packages"; leave out all but "dependencies" to have them resolved',
      );
    }
    return problems.length > 0 ? invalid() : { kind: "wish", dependencies: dependencies as Record<string, string> };
  }
  await checkPackages(packages, inside(place, "packages"));
  if (problems.length > 0) return invalid();
  const set = asPackageSet(value);
  if (!set) {
    const message = '"lines" must contain, by the keys of "packages", what npm wrote; leave it out if it is lost';
    addProblem(inside(place, "lines"), "wrong-type", message);
    return invalid();
  }
  for (const name of Object.keys(set.dependencies)) {
    if (placeOf(set, name, "") !== undefined) continue;
    const message = `${quoted(name)} is a dependency, and "packages" has no ${quoted(`node_modules/${name}`)}`;
    addProblem(inside(inside(place, "dependencies"), name), "missing-package", message);
  }
  return problems.length > 0 ? invalid() : { kind: "set", set };
}

async function checkDependencies(value: unknown, place: ConfigPlace): Promise<void> {
  if (!isObject(value)) return addProblem(place, "wrong-type", '"dependencies" must be an object of names and ranges');
  if (isTooMany(value, "dependencies", place)) return;
  const yieldIfDue = createYielder();
  for (const [name, range] of Object.entries(value)) {
    await yieldIfDue();
    const at = inside(place, name);
    if (typeof range !== "string") addProblem(at, "wrong-type", `The range of ${quoted(name)} must be a string`);
    else {
      const problem = needProblem(name, range);
      if (problem !== undefined) addProblem(at, "bad-dependency", problem);
    }
  }
}

function isTooMany(value: object, what: string, place: ConfigPlace): boolean {
  const { packagesPerSet } = setBounds;
  const count = Object.keys(value).length;
  if (count <= packagesPerSet) return false;
  addProblem(place, "too-many-packages", `The set has ${count} ${what}, and the limit is ${packagesPerSet}`);
  return true;
}

async function checkPackages(value: unknown, place: ConfigPlace): Promise<void> {
  if (!isObject(value))
    return addProblem(place, "wrong-type", '"packages" must be an object of packages by their places');
  if (isTooMany(value, "packages", place)) return;
  const yieldIfDue = createYielder();
  for (const [where, each] of Object.entries(value)) {
    await yieldIfDue();
    const at = inside(place, where);
    if (!namesInPlace(where)) {
      addProblem(
        at,
        "bad-place",
        `${quoted(where)} is not a location of a package, such as "node_modules/a/node_modules/b"`,
      );
    }
    checkPackage(each, where, at);
  }
}

function checkPackage(value: unknown, where: string, place: ConfigPlace): void {
  if (!isObject(value)) return addProblem(place, "wrong-type", `${quoted(where)} must be an object`);
  for (const field of Object.keys(value)) {
    if (PACKAGE_FIELDS.includes(field)) continue;
    const message = `A package has no field ${quoted(field)}; its fields are ${PACKAGE_FIELDS.join(", ")}`;
    addProblem(inside(place, field), "unknown-field", message);
  }
  const { name, version, integrity, tarball, dependencies } = value;
  const check = (field: string, isValid: boolean, what: string): void => {
    if (!isValid) addProblem(inside(place, field), "wrong-type", `${quoted(where)}: "${field}" must be ${what}`);
  };
  check("name", typeof name === "string" && isPackageName(name), "the name of a package");
  check("version", typeof version === "string" && isExactVersion(version), "one exact version");
  check("integrity", typeof integrity === "string" && isSha512(integrity), 'the sha512 of its tarball: "sha512-…"');
  const isTarball = typeof tarball === "string" && isCid(tarball) && !isStructure(tarball);
  check("tarball", tarball === undefined || isTarball, "the raw CID of its tarball");
  check("dependencies", dependencies === undefined || isNames(dependencies), `up to ${NEEDS_MAX} names of packages`);
  for (const field of ["os", "cpu", "libc"]) {
    check(field, value[field] === undefined || isTexts(value[field]), "a list of platform names");
  }
  if (tarball !== undefined && isVariant(value as unknown as LockedPackage)) {
    const message = `${quoted(where)} is only for some platforms, so no bundle can contain it: it has no "tarball"`;
    addProblem(inside(place, "tarball"), "variant-tarball", message);
  }
}

function isNames(value: unknown): boolean {
  return isTexts(value) && (value as string[]).every(isPackageName);
}

function quoted(text: string): string {
  return JSON.stringify(cutText(text, QUOTED_UNITS));
}
