import { satisfies, validRange } from "semver";
import { parseJsonSource, problemAt, type JsonNode, type SourcePosition } from "../lib/json-source.ts";
import { isObject, isStringArray } from "../lib/json.ts";
import { compareText } from "../lib/pretty-json.ts";
import { firstProblems, type Problem } from "../lib/problem.ts";
import { famousLookalike } from "./famous.ts";
import { nativeAdvice } from "./native-addons.ts";
import { isExactVersion, isPackageName, namesInPlace } from "./package-name.ts";
import { isSha512, isVariant, placeOf, type LockedPackage, type LockLine, type PackageSet } from "./package-set.ts";
import { setBounds } from "./set-bounds.ts";

/** A `package.json` or a lock file: its name, for problems, and its text. */
export interface NamedText {
  readonly file: string;
  readonly text: string;
}

export interface ReadLockOptions {
  /** The addresses of the registries in use. What the lock says of others' is refused. */
  readonly registries?: readonly string[];
  /** Default: `setBounds.packagesPerSet`. npm's process gets that of its parent. */
  readonly packagesPerSet?: number;
  /** The version of npm that made the lock, where that is known. */
  readonly npm?: string;
}

/** The address that npm writes for "the registry in use", whichever that is. */
export const PUBLIC_REGISTRY = "https://registry.npmjs.org/";

/**
 * Reads what npm made of a `package.json`: the packages that its production dependencies reach, without their
 * tarballs. Nothing is taken that is not of the registry, or that has no sha512.
 */
export function readLock(
  packageJson: NamedText,
  lock: NamedText,
  options: ReadLockOptions = {},
): { set?: PackageSet; problems: Problem[] } {
  const wanted = parseJsonSource(packageJson.file, packageJson.text);
  const locked = parseJsonSource(lock.file, lock.text);
  const problems = [...wanted.problems, ...locked.problems];
  if (!wanted.root || !locked.root || problems.length > 0) return { problems };
  const reading = new LockReading(wanted.root, locked.root, options);
  const set = reading.read();
  const all = [...firstProblems(reading.problems)];
  return set && !all.some(({ severity }) => severity === "error") ? { set, problems: all } : { problems: all };
}

const LOCK_VERSIONS: ReadonlySet<unknown> = new Set([2, 3]);
const AGAIN = "run npm install --package-lock-only there";

/** A dependency, as the one who needs it writes it. */
interface Need {
  readonly name: string;
  readonly spec: string;
  readonly at: SourcePosition;
  /** The place of who needs it; "" stands for the `package.json`. */
  readonly from: string;
  readonly isOptional: boolean;
}

class LockReading {
  readonly problems: Problem[] = [];
  readonly #root: JsonNode;
  readonly #lock: JsonNode;
  readonly #npm: string | undefined;
  readonly #packagesMax: number;
  readonly #registries: readonly URL[];
  /** Every line of the lock by place, read or not. */
  #lines: ReadonlyMap<string, JsonNode> = new Map();
  #mayRename = false;

  constructor(root: JsonNode, lock: JsonNode, options: ReadLockOptions) {
    this.#root = root;
    this.#lock = lock;
    this.#npm = options.npm;
    this.#packagesMax = options.packagesPerSet ?? setBounds.packagesPerSet;
    this.#registries = [...(options.registries ?? []), PUBLIC_REGISTRY].map((address) => new URL(asFolder(address)));
  }

  read(): PackageSet | undefined {
    const lines = this.#linesOf();
    if (!lines) return undefined;
    this.#lines = lines;
    this.#mayRename = isObject(memberOf(this.#root, "overrides")?.value);
    const dependencies = this.#dependencies();
    const reached = this.#reach(dependencies);
    if (reached.size > this.#packagesMax) {
      const message = `The dependencies lead to more than ${this.#packagesMax} packages: leave out what no definition imports`;
      this.#complain(this.#root.at, "too-many-packages", message);
      return undefined;
    }
    const packages: Record<string, LockedPackage> = {};
    const rest: Record<string, LockLine> = {};
    for (const [place, found] of [...reached].sort(([one], [other]) => compareText(one, other))) {
      packages[place] = found.package;
      if (Object.keys(found.line).length > 0) rest[place] = found.line;
    }
    this.#warnOfScripts(reached);
    return {
      dependencies: Object.fromEntries(dependencies.map(({ name, spec }) => [name, spec])),
      ...(this.#npm !== undefined && { npm: this.#npm }),
      packages,
      ...(Object.keys(rest).length > 0 && { lines: rest }),
    };
  }

  #linesOf(): ReadonlyMap<string, JsonNode> | undefined {
    if (!this.#root.members || !this.#lock.members) {
      const at = (this.#root.members ? this.#lock : this.#root).at;
      this.#complain(at, "wrong-type", "It must be an object, as npm writes it");
      return undefined;
    }
    const version = memberOf(this.#lock, "lockfileVersion");
    if (!LOCK_VERSIONS.has(version?.value)) {
      const found = version ? JSON.stringify(version.value) : "missing";
      const message = `"lockfileVersion" must be 2 or 3, and is ${found}: ${AGAIN} with npm 7 or newer`;
      this.#complain((version ?? this.#lock).at, "lock-version", message);
      return undefined;
    }
    const packages = memberOf(this.#lock, "packages");
    if (!packages?.members) {
      this.#complain((packages ?? this.#lock).at, "lock-outdated", `The lock has no "packages": ${AGAIN}`);
      return undefined;
    }
    for (const root of [this.#root, packages.members.get("")?.node]) {
      const workspaces = root && memberOf(root, "workspaces");
      if (!workspaces) continue;
      const message =
        "Workspaces are not supported: list what definitions import in the dependencies of one package.json";
      this.#complain(workspaces.at, "workspaces", message);
      return undefined;
    }
    return new Map([...packages.members].map(([place, { node }]) => [place, node]));
  }

  /** The packages that definitions may import. Optional dependencies stand in for others of the same name, as for npm. */
  #dependencies(): Need[] {
    const needs = new Map<string, Need>();
    for (const field of ["dependencies", "optionalDependencies"]) {
      for (const need of this.#needsIn(this.#root, field, "", () => field !== "dependencies")) {
        const lookalike = famousLookalike(need.name);
        if (lookalike !== undefined) {
          const message = `"${need.name}" differs by one letter from the well-known "${lookalike}": check that it is what you mean`;
          this.#complain(need.at, "similar-name", message, "warning");
        }
        needs.set(need.name, need);
      }
    }
    return [...needs.values()].sort((one, other) => compareText(one.name, other.name));
  }

  #needsIn(node: JsonNode, field: string, from: string, isOptional: (name: string) => boolean): Need[] {
    const listed = memberOf(node, field);
    if (!listed) return [];
    if (!listed.members) {
      this.#complain(listed.at, "wrong-type", `"${field}" must be an object of names and ranges`);
      return [];
    }
    const needs: Need[] = [];
    for (const [name, { at, node: spec }] of listed.members) {
      if (!isPackageName(name))
        this.#complain(at, "bad-package-name", `${JSON.stringify(name)} is no name of a package`);
      else if (typeof spec.value !== "string")
        this.#complain(spec.at, "wrong-type", `The range of "${name}" must be a string`);
      else needs.push({ name, spec: spec.value, at, from, isOptional: isOptional(name) });
    }
    return needs;
  }

  /** Every line that a dependency leads to. No bundle can hold a variant, so what only variants need is left out. */
  #reach(dependencies: readonly Need[]): Map<string, Reached> {
    const reached = new Map<string, Reached>();
    const unfit = new Set<string>();
    const places = { packages: Object.fromEntries(this.#lines) as unknown as Record<string, LockedPackage> };
    const wanted = dependencies.filter((need) => this.#isOfRegistry(need));
    for (const need of wanted) {
      if (reached.size > this.#packagesMax) break;
      const place = placeOf(places, need.name, need.from);
      if (place === undefined) {
        if (!need.isOptional) this.#complain(need.at, "lock-outdated", `${missing(need)}: ${AGAIN}`);
        continue;
      }
      if (unfit.has(place)) continue;
      const node = this.#lines.get(place)!;
      let found = reached.get(place);
      if (!found) {
        found = this.#readLine(place, node);
        if (!found) {
          unfit.add(place);
          continue;
        }
        const needs = isVariant(found.package) ? [] : this.#needsOf(place, node);
        wanted.push(...needs.filter((each) => this.#isOfRegistry(each)));
        const names = needs.map(({ name }) => name).filter((name) => placeOf(places, name, place) !== undefined);
        if (names.length > 0) {
          const sorted = [...new Set(names)].sort(compareText);
          found = { ...found, package: { ...found.package, dependencies: sorted } };
        }
        reached.set(place, found);
      }
      this.#checkFit(need, found);
    }
    return reached;
  }

  #needsOf(place: string, line: JsonNode): Need[] {
    const optional = new Set(memberOf(line, "optionalDependencies")?.members?.keys());
    return [
      ...this.#needsIn(line, "dependencies", place, (name) => optional.has(name)),
      ...this.#needsIn(line, "optionalDependencies", place, () => true),
      // npm leaves some of them out: those that may be missing, and all with `legacy-peer-deps`.
      ...this.#needsIn(line, "peerDependencies", place, () => true),
    ];
  }

  /** True for a range, which leaves it to the registry where the package is from. */
  #isOfRegistry({ name, spec, at, from }: Need): boolean {
    if (isRange(spec)) return true;
    const who = from === "" ? "" : `, which ${from} needs,`;
    this.#complain(
      at,
      "not-of-registry",
      `"${name}"${who} is ${kindOf(spec)}: only packages of the registry are taken`,
    );
    return false;
  }

  #readLine(place: string, line: JsonNode): Reached | undefined {
    const complain = (code: string, message: string): undefined =>
      this.#complain(line.at, code, `${place}: ${message}`);
    const names = namesInPlace(place);
    if (!names) return complain("bad-package-name", "this is no place of a package");
    if (!isObject(line.value)) return complain("wrong-type", "it must be an object");
    const { name = names.at(-1)!, version, resolved, integrity, link, inBundle, os, cpu, libc } = line.value;
    if (typeof name !== "string" || !isPackageName(name))
      return complain("bad-package-name", `${JSON.stringify(name)} is no name of a package`);
    if (link === true) return complain("not-of-registry", "it is a link to a folder, which no other machine has");
    if (inBundle === true) {
      const parent = place.slice(0, place.lastIndexOf("/node_modules/"));
      return complain(
        "bundled-package",
        `it lies inside of the tarball of ${parent}, without a version and a sha512 that the registry vouches for; ` +
          "use a version that does not bundle it",
      );
    }
    if (resolved !== undefined && !this.#isInRegistry(resolved)) {
      const address = typeof resolved === "string" ? kindOf(resolved) : "no address";
      // Which one that is, tenants need not know.
      return complain("not-of-registry", `it is ${address}, and not of the registry that npm is configured for`);
    }
    if (typeof version !== "string" || !isExactVersion(version))
      return complain("lock-outdated", `its version is ${JSON.stringify(version ?? null)}, which is no exact version`);
    const sha512 = typeof integrity === "string" ? integrity.split(" ").find(isSha512) : undefined;
    if (sha512 === undefined) {
      const had = typeof integrity === "string" ? `only ${integrity.split("-")[0]}` : "no integrity";
      return complain(
        "no-integrity",
        `it has ${had}, and a tarball is only taken with its sha512: remove this line and ${AGAIN}, or use a newer version`,
      );
    }
    const machines = Object.entries({ os, cpu, libc }).filter(([, list]) => list !== undefined);
    const wrong = machines.find(([, list]) => !isStringArray(asList(list)));
    if (wrong) return complain("wrong-type", `"${wrong[0]}" must be a list of names`);
    const variant = Object.fromEntries(machines.map(([field, list]) => [field, asList(list) as string[]]));
    return { at: line.at, package: { name, version, integrity: sha512, ...variant }, line: lockLineOf(line.value) };
  }

  #isInRegistry(resolved: unknown): boolean {
    if (typeof resolved !== "string" || !URL.canParse(resolved)) return false;
    const { origin, pathname, username, password } = new URL(resolved);
    if (username !== "" || password !== "") return false;
    return this.#registries.some((each) => each.origin === origin && pathname.startsWith(each.pathname));
  }

  /** The lock is what npm makes of the ranges; another package under a name would be somebody's own work. */
  #checkFit({ name, spec, at, from, isOptional }: Need, found: Reached): void {
    const { range, name: target = name } = specOf(spec);
    const { version } = found.package;
    const isOther = found.package.name !== target;
    if (isOther && !(this.#mayRename && from !== "")) {
      const message = `The lock has the package "${found.package.name}" for "${name}", not "${target}": ${AGAIN}`;
      this.#complain(at, "lock-outdated", message);
    } else if (from === "" && !isAllowed(version, range)) {
      const message = `The lock has ${found.package.name} ${version}, which "${spec}" does not allow: ${AGAIN}`;
      this.#complain(at, "lock-outdated", message);
    } else if (!isOptional && isVariant(found.package)) {
      const { os, cpu, libc } = found.package;
      const machines = [...(os ?? []), ...(cpu ?? []), ...(libc ?? [])].join(", ");
      const message = `"${name}" is for some machines alone (${machines}), so no bundle can hold it: use a package without native code`;
      this.#complain(at, "machine-variant", message, "warning");
    }
  }

  #warnOfScripts(reached: ReadonlyMap<string, Reached>): void {
    const told = new Set<string>();
    for (const { at, package: found, line } of reached.values()) {
      const { name, version } = found;
      if (line.hasInstallScript !== true || isVariant(found) || told.has(name)) continue;
      told.add(name);
      const needed = Object.keys({ ...line.dependencies, ...line.optionalDependencies });
      const advice = nativeAdvice(name, needed);
      const message = `${name} ${version}: its install script is never run`;
      if (advice === undefined)
        this.#complain(at, "install-script", `${message}; what it would make or fetch is not there`, "warning");
      else this.#complain(at, "native-addon", `${message}, and native addons do not run here: ${advice}`, "warning");
    }
  }

  #complain(at: SourcePosition, code: string, message: string, severity: Problem["severity"] = "error"): undefined {
    this.problems.push(problemAt(at, code, message, severity));
    return undefined;
  }
}

interface Reached {
  readonly at: SourcePosition;
  readonly package: LockedPackage;
  readonly line: LockLine;
}

/** Why a dependency cannot be asked for. */
export function needProblem(name: string, range: string): string | undefined {
  if (!isPackageName(name)) return `${JSON.stringify(name.slice(0, SHOWN_UNITS))} is no name of a package`;
  return isRange(range) ? undefined : `"${name}" is ${kindOf(range)}: only packages of the registry are taken`;
}

function isRange(spec: string): boolean {
  const { range } = specOf(spec);
  return range.length <= RANGE_UNITS_MAX && (validRange(range, { loose: true }) !== null || TAG.test(range));
}

const RANGE_UNITS_MAX = 256;

/** As npm decides it. A tag has moved since, perhaps. */
function isAllowed(version: string, range: string): boolean {
  const valid = validRange(range, { loose: true });
  return valid === null || valid === "*" || satisfies(version, range, { loose: true });
}

/** A name such as `latest`. */
const TAG = /^[a-z][\w.-]*$/i;

/** `npm:other@^1` → that package under another name; anything else → a range of the package itself. */
function specOf(spec: string): { readonly range: string; readonly name?: string } {
  if (!spec.startsWith("npm:")) return { range: spec };
  const target = spec.slice("npm:".length);
  const end = target.indexOf("@", 1);
  const [name, range] = end < 0 ? [target, "*"] : [target.slice(0, end), target.slice(end + 1)];
  return isPackageName(name) ? { name, range } : { range: spec };
}

function kindOf(address: string): string {
  const shown = JSON.stringify(address.length > SHOWN_UNITS ? `${address.slice(0, SHOWN_UNITS)}…` : address);
  if (/^git[+:@]|^(?:github|gitlab|bitbucket|gist):|^[\w.-]+\/[\w.-]+(?:#|$)|\.git(?:#|$)/.test(address))
    return `an address for git (${shown})`;
  if (/^(?:file|link):|^[./~]/.test(address)) return `a path (${shown})`;
  if (/^https?:/.test(address)) return `an address elsewhere (${withoutSecrets(address)})`;
  if (address.startsWith("workspace:")) return `a workspace (${shown})`;
  return `no range of versions (${shown})`;
}

const SHOWN_UNITS = 120;

/** Addresses of private hosts often carry passwords. */
function withoutSecrets(address: string): string {
  if (!URL.canParse(address)) return "not an address";
  const { origin, pathname } = new URL(address);
  return JSON.stringify(`${origin}${pathname}`.slice(0, SHOWN_UNITS));
}

function missing({ name, spec, from }: Need): string {
  if (from === "") return `The lock has no "${name}" (${spec})`;
  return `The lock has no "${name}" (${spec}), which ${from} needs`;
}

const LINE_FIELDS = [
  "dependencies",
  "optionalDependencies",
  "peerDependencies",
  "peerDependenciesMeta",
  "hasInstallScript",
  "optional",
  "peer",
] as const;

/** The fields were read before, except for the last ones, which count only where they are what npm writes. */
function lockLineOf(line: Readonly<Record<string, unknown>>): LockLine {
  const kept = LINE_FIELDS.filter((field) => {
    const value = line[field];
    if (value === undefined) return false;
    return field.endsWith("endencies") || field === "peerDependenciesMeta" ? isObject(value) : value === true;
  });
  return Object.fromEntries(kept.map((field) => [field, line[field]]));
}

/** Some packages write a single name. */
function asList(value: unknown): unknown {
  return typeof value === "string" ? [value] : value;
}

function memberOf(node: JsonNode, name: string): JsonNode | undefined {
  return node.members?.get(name)?.node;
}

function asFolder(address: string): string {
  return address.endsWith("/") ? address : `${address}/`;
}
