import type { PackageChange } from "../contract/review.ts";
import { compareText } from "../lib/pretty-json.ts";
import type { Problem } from "../lib/problem.ts";
import { famousLookalike } from "../packages/famous.ts";
import { nativeAdvice } from "../packages/native-addons.ts";
import { isVariant, type PackageSet } from "../packages/package-set.ts";

/** The packages that differ between two sets, by name: a set may hold several versions of one. */
export function packageChanges(before: PackageSet | undefined, after: PackageSet | undefined): PackageChange[] {
  const [was, would] = [versionsIn(before), versionsIn(after)];
  const changes: PackageChange[] = [];
  for (const name of [...new Set([...was.keys(), ...would.keys()])].sort(compareText)) {
    const [old, now] = [was.get(name) ?? new Map(), would.get(name) ?? new Map()] as [Versions, Versions];
    const [oldVersions, versions] = [[...old.keys()].sort(compareText), [...now.keys()].sort(compareText)];
    const isSame = versions.every((version) => isSameBytes(old.get(version), now.get(version), "supplied"));
    if (isSame && oldVersions.join() === versions.join()) continue;
    const changedBytes = versions.filter((each) => old.has(each) && !isSameBytes(old.get(each), now.get(each)));
    const supplied = versions.filter((version) => now.get(version)?.supplied);
    const direct = [before, after].some((set) => set !== undefined && Object.hasOwn(set.dependencies, name));
    changes.push({
      name,
      before: oldVersions,
      after: versions,
      ...(changedBytes.length > 0 && { changedBytes }),
      ...(supplied.length > 0 && { supplied }),
      direct,
    });
  }
  return changes;
}

/** One version of a package; a set may have other bytes of it at each place. */
interface VersionBytes {
  readonly integrities: Set<string>;
  supplied: boolean;
}

type Versions = Map<string, VersionBytes>;

function isSameBytes(one: VersionBytes | undefined, other: VersionBytes | undefined, and?: "supplied"): boolean {
  const [all, others] = [one, other].map((each) => [...(each?.integrities ?? [])].sort(compareText).join());
  return all === others && (and === undefined || one?.supplied === other?.supplied);
}

/** By name, and then by version. */
function versionsIn(set: PackageSet | undefined): Map<string, Versions> {
  const found = new Map<string, Versions>();
  for (const { name, version, integrity, supplied = false } of Object.values(set?.packages ?? {})) {
    const versions = found.get(name) ?? new Map<string, VersionBytes>();
    const known = versions.get(version) ?? { integrities: new Set(), supplied };
    known.integrities.add(integrity);
    known.supplied ||= supplied;
    found.set(name, versions.set(version, known));
  }
  return found;
}

/** Warnings about the packages that come or have other versions; they refuse nothing. */
export function packageWarnings(before: PackageSet | undefined, after: PackageSet | undefined): Problem[] {
  if (!after) return [];
  const warnings: Problem[] = [];
  const warn = (code: string, message: string): void => void warnings.push({ code, message, severity: "warning" });
  for (const name of Object.keys(after.dependencies).sort(compareText)) {
    const lookalike = before && Object.hasOwn(before.dependencies, name) ? undefined : famousLookalike(name);
    if (lookalike === undefined) continue;
    warn(
      "similar-name",
      `"${name}" differs by one letter from the well-known "${lookalike}": check that it is what you mean`,
    );
  }
  for (const { name, changedBytes = [], supplied = [] } of packageChanges(before, after)) {
    for (const version of changedBytes)
      warn("changed-bytes", `${name} ${version} has other bytes than before, which no registry gives the same version`);
    for (const version of supplied)
      warn("supplied-package", `${name} ${version} comes from no registry: its tarball was given with the set`);
  }
  const known = new Set(Object.values(before?.packages ?? {}).map(({ integrity }) => integrity));
  const told = new Set<string>();
  for (const [place, locked] of Object.entries(after.packages)) {
    const { name, version, integrity, dependencies = [] } = locked;
    if (known.has(integrity) || told.has(integrity)) continue;
    const isDirect = place === `node_modules/${name}` && Object.hasOwn(after.dependencies, name);
    if (isVariant(locked) && isDirect) {
      told.add(integrity);
      warn("machine-variant", `${name} ${version} is for some machines alone, so no bundle can hold it`);
    } else if (after.lines?.[place]?.hasInstallScript === true && !isVariant(locked)) {
      told.add(integrity);
      const advice = nativeAdvice(name, dependencies);
      const why =
        advice === undefined ? "what it would make or fetch is not there" : `native addons do not run here: ${advice}`;
      warn("install-script", `${name} ${version}: its install script is never run; ${why}`);
    }
  }
  return warnings;
}
