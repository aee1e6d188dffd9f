import type { PackageChange } from "../contract/review.ts";
import { compareText } from "../lib/pretty-json.ts";
import type { Problem } from "../lib/problem.ts";
import { famousLookalike } from "../packages/famous.ts";
import { nativeAdvice } from "../packages/native-addons.ts";
import { isVariant, type LockedPackage, type PackageSet } from "../packages/package-set.ts";

/** The packages that differ between two sets, by name: a set may contain several versions of one. */
export function packageChanges(before: PackageSet | undefined, after: PackageSet | undefined): PackageChange[] {
  const [oldByName, newByName] = [groupByName(before), groupByName(after)];
  const changes: PackageChange[] = [];
  for (const name of [...new Set([...oldByName.keys(), ...newByName.keys()])].sort(compareText)) {
    const [old, now] = [listVersions(oldByName.get(name)), listVersions(newByName.get(name))];
    if (JSON.stringify([[...old.bytes], old.supplied]) === JSON.stringify([[...now.bytes], now.supplied])) continue;
    const versions = [...now.bytes.keys()];
    const changedBytes = versions.filter((each) => old.bytes.has(each) && old.bytes.get(each) !== now.bytes.get(each));
    changes.push({
      name,
      before: [...old.bytes.keys()],
      after: versions,
      ...(changedBytes.length > 0 && { changedBytes }),
      ...(now.supplied.length > 0 && { supplied: now.supplied }),
      direct: [before, after].some((set) => set !== undefined && Object.hasOwn(set.dependencies, name)),
    });
  }
  return changes;
}

function groupByName(set: PackageSet | undefined): Map<string, LockedPackage[]> {
  const groups = new Map<string, LockedPackage[]>();
  for (const locked of Object.values(set?.packages ?? {})) {
    const group = groups.get(locked.name);
    if (group) group.push(locked);
    else groups.set(locked.name, [locked]);
  }
  return groups;
}

/** The versions of one name, sorted, with what identifies their bytes; and those that come from no registry. */
function listVersions(packages: readonly LockedPackage[] = []): { bytes: Map<string, string>; supplied: string[] } {
  const bytes = new Map<string, string>();
  for (const line of new Set(packages.map(({ version, integrity }) => `${version} ${integrity}`).sort(compareText))) {
    const version = line.slice(0, line.indexOf(" "));
    bytes.set(version, (bytes.get(version) ?? "") + line);
  }
  const supplied = packages.flatMap((locked) => (locked.supplied ? [locked.version] : []));
  return { bytes, supplied: [...new Set(supplied)].sort(compareText) };
}

/** Warnings about added and changed packages; they block nothing. */
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
      warn(
        "changed-bytes",
        `${name} ${version} has different bytes than before: a registry never changes a published version`,
      );
    for (const version of supplied)
      warn(
        "supplied-package",
        `${name} ${version} does not come from a registry: its tarball was uploaded with the set`,
      );
  }
  const existing = new Set(Object.values(before?.packages ?? {}).map(({ integrity }) => integrity));
  const reported = new Set<string>();
  for (const [place, locked] of Object.entries(after.packages)) {
    const { name, version, integrity, dependencies = [] } = locked;
    if (existing.has(integrity) || reported.has(integrity)) continue;
    const isDirect = place === `node_modules/${name}` && Object.hasOwn(after.dependencies, name);
    if (isVariant(locked) && isDirect) {
      reported.add(integrity);
      warn("machine-variant", `${name} ${version} is only for some platforms, so no bundle can contain it`);
    } else if (after.lines?.[place]?.hasInstallScript === true && !isVariant(locked)) {
      reported.add(integrity);
      const advice = nativeAdvice(name, dependencies);
      const why =
        advice === undefined ? "what it would build or fetch is missing" : `native addons do not run here: ${advice}`;
      warn("install-script", `${name} ${version}: its install script is never run; ${why}`);
    }
  }
  return warnings;
}
