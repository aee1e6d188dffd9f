import { complain, inside, type ConfigPlace } from "../entry/config-place.ts";
import { isCid, isStructure } from "../lib/cid.ts";
import { cutText } from "../lib/cut-text.ts";
import { turnTaker } from "../lib/event-loop.ts";
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

/** A value of the variable `packages`: a whole set, or the input of one. */
export type SaidPackages =
  | { readonly kind: "set"; readonly set: PackageSet }
  | { readonly kind: "wish"; readonly dependencies: Readonly<Record<string, string>> }
  | { readonly kind: "wrong"; readonly problems: readonly Problem[] };

const SET_FIELDS = ["dependencies", "npm", "packages", "lines"];
const PACKAGE_FIELDS = ["name", "version", "integrity", "tarball", "supplied", "dependencies", "os", "cpu", "libc"];
/** Texts of others are quoted no further than this. */
const QUOTED_UNITS = 120;

/** Reads the JSON value of the variable, undefined for one with too many values, with all that is wrong in it at its place. Does not look for tarballs. */
export async function readSaidPackages(value: unknown): Promise<SaidPackages> {
  const place: ConfigPlace = { pointer: "", problems: [] };
  const { problems } = place;
  const wrong = (): SaidPackages => ({ kind: "wrong", problems });
  if (!isObject(value)) {
    const what = `an object such as {"dependencies": {"zod": "^4"}}, with at most ${SET_VALUES_MAX} values`;
    complain(place, "wrong-type", `The variable packages must be ${what}`);
    return wrong();
  }
  for (const field of Object.keys(value)) {
    if (SET_FIELDS.includes(field)) continue;
    const message = `A set of packages has no field ${quoted(field)}; its fields are ${SET_FIELDS.join(", ")}`;
    complain(inside(place, field), "unknown-field", message);
  }
  const { dependencies, npm, packages, lines } = value;
  if (npm !== undefined && typeof npm !== "string")
    complain(inside(place, "npm"), "wrong-type", '"npm" must be a string');
  await checkDependencies(dependencies, inside(place, "dependencies"));
  if (packages === undefined) {
    if (lines !== undefined || npm !== undefined) {
      complain(
        place,
        "missing-packages",
        'A set has "packages"; leave out all but "dependencies" to have them resolved',
      );
    }
    return problems.length > 0 ? wrong() : { kind: "wish", dependencies: dependencies as Record<string, string> };
  }
  await checkPackages(packages, inside(place, "packages"));
  if (problems.length > 0) return wrong();
  const set = asPackageSet(value);
  if (!set) {
    const message = '"lines" must hold, by the places of "packages", what npm wrote; leave it out where it is lost';
    complain(inside(place, "lines"), "wrong-type", message);
    return wrong();
  }
  for (const name of Object.keys(set.dependencies)) {
    if (placeOf(set, name, "") !== undefined) continue;
    const message = `${quoted(name)} is a dependency, and "packages" has no ${quoted(`node_modules/${name}`)}`;
    complain(inside(inside(place, "dependencies"), name), "missing-package", message);
  }
  return problems.length > 0 ? wrong() : { kind: "set", set };
}

async function checkDependencies(value: unknown, place: ConfigPlace): Promise<void> {
  if (!isObject(value)) return complain(place, "wrong-type", '"dependencies" must be an object of names and ranges');
  if (isTooMany(value, "dependencies", place)) return;
  const takeTurns = turnTaker();
  for (const [name, range] of Object.entries(value)) {
    await takeTurns();
    const at = inside(place, name);
    if (typeof range !== "string") complain(at, "wrong-type", `The range of ${quoted(name)} must be a string`);
    else {
      const problem = needProblem(name, range);
      if (problem !== undefined) complain(at, "bad-dependency", problem);
    }
  }
}

function isTooMany(value: object, what: string, place: ConfigPlace): boolean {
  const { packagesPerSet } = setBounds;
  const count = Object.keys(value).length;
  if (count <= packagesPerSet) return false;
  complain(place, "too-many-packages", `The set has ${count} ${what}, and the limit is ${packagesPerSet}`);
  return true;
}

async function checkPackages(value: unknown, place: ConfigPlace): Promise<void> {
  if (!isObject(value))
    return complain(place, "wrong-type", '"packages" must be an object of packages by their places');
  if (isTooMany(value, "packages", place)) return;
  const takeTurns = turnTaker();
  for (const [where, each] of Object.entries(value)) {
    await takeTurns();
    const at = inside(place, where);
    if (!namesInPlace(where)) {
      complain(at, "bad-place", `${quoted(where)} is no place of a package, such as "node_modules/a/node_modules/b"`);
    }
    checkPackage(each, where, at);
  }
}

function checkPackage(value: unknown, where: string, place: ConfigPlace): void {
  if (!isObject(value)) return complain(place, "wrong-type", `${quoted(where)} must be an object`);
  for (const field of Object.keys(value)) {
    if (PACKAGE_FIELDS.includes(field)) continue;
    const message = `A package has no field ${quoted(field)}; its fields are ${PACKAGE_FIELDS.join(", ")}`;
    complain(inside(place, field), "unknown-field", message);
  }
  const { name, version, integrity, tarball, dependencies } = value;
  const check = (field: string, isRight: boolean, what: string): void => {
    if (!isRight) complain(inside(place, field), "wrong-type", `${quoted(where)}: "${field}" must be ${what}`);
  };
  check("name", typeof name === "string" && isPackageName(name), "the name of a package");
  check("version", typeof version === "string" && isExactVersion(version), "one exact version");
  check("integrity", typeof integrity === "string" && isSha512(integrity), 'the sha512 of its tarball: "sha512-…"');
  const isTarball = typeof tarball === "string" && isCid(tarball) && !isStructure(tarball);
  check("tarball", tarball === undefined || isTarball, "the raw CID of its tarball");
  check("dependencies", dependencies === undefined || isNames(dependencies), `up to ${NEEDS_MAX} names of packages`);
  for (const field of ["os", "cpu", "libc"]) {
    check(field, value[field] === undefined || isTexts(value[field]), "a list of names of machines");
  }
  if (tarball !== undefined && isVariant(value as unknown as LockedPackage)) {
    const message = `${quoted(where)} is for some machines alone, so no bundle can hold it: it has no "tarball"`;
    complain(inside(place, "tarball"), "variant-tarball", message);
  }
}

function isNames(value: unknown): boolean {
  return isTexts(value) && (value as string[]).every(isPackageName);
}

function quoted(text: string): string {
  return JSON.stringify(cutText(text, QUOTED_UNITS));
}
