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
    const [old, now] = [was.get(name) ?? [], would.get(name) ?? []];
    if (old.join() === now.join()) continue;
    const direct = [before, after].some((set) => set !== undefined && Object.hasOwn(set.dependencies, name));
    changes.push({ name, before: old, after: now, direct });
  }
  return changes;
}

function versionsIn(set: PackageSet | undefined): Map<string, string[]> {
  const found = new Map<string, Set<string>>();
  for (const { name, version } of Object.values(set?.packages ?? {})) {
    const versions = found.get(name);
    if (versions) versions.add(version);
    else found.set(name, new Set([version]));
  }
  return new Map([...found].map(([name, versions]) => [name, [...versions].sort(compareText)]));
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
