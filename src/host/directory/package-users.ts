import { findPackageImports } from "../../discover/files/imports.ts";
import { loadStoredDefinition } from "../../image/definition.ts";
import { BoundedMap } from "../../lib/bounded-map.ts";
import type { Cid } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import { createYielder } from "../../lib/event-loop.ts";
import { isObject } from "../../lib/json.ts";
import { compareText } from "../../lib/pretty-json.ts";
import { packageName } from "../../packages/package-name.ts";
import { asPackageSet, packagesInReach, type LockedPackage, type PackageSet } from "../../packages/package-set.ts";
import type { Store } from "../../store/store.ts";
import { unlessDamaged } from "../../store/unless-damaged.ts";
import type { DirectoryEntry } from "./directory.ts";
import { storedStructure } from "./stored-structure.ts";

/**
 * Which servers use which packages of their tenant: by what their sources import, without compiling or loading any. A
 * change of the set concerns those alone whose imports lead to something else than before.
 */

/** The names of packages that lead to other packages in `after` than in `before`. Calls of others get their turns. */
export async function changedPackages(
  before: PackageSet | undefined,
  after: PackageSet | undefined,
): Promise<ReadonlySet<string>> {
  const changed = new Set<string>();
  if (before === after) return changed;
  const takeTurns = createYielder();
  const places = new Set<string>();
  for (const place of new Set([...Object.keys(before?.packages ?? {}), ...Object.keys(after?.packages ?? {})])) {
    await takeTurns();
    if (JSON.stringify(before?.packages[place]) !== JSON.stringify(after?.packages[place])) places.add(place);
  }
  for (const name of new Set([...Object.keys(before?.dependencies ?? {}), ...Object.keys(after?.dependencies ?? {})])) {
    await takeTurns();
    const [was, would] = [before, after].map((set) => Object.keys(packagesInReach(set, [name])?.packages ?? {}));
    const isSame =
      was!.length === would!.length && was!.every((place, at) => place === would![at] && !places.has(place));
    if (!isSame) changed.add(name);
  }
  return changed;
}

/** The servers, sorted, whose source or transforms import one of these packages. */
export async function serversImporting(
  store: Pick<Store, "content" | "contents">,
  tenant: string,
  servers: ReadonlyMap<string, DirectoryEntry>,
  names: ReadonlySet<string>,
): Promise<string[]> {
  if (names.size === 0) return [];
  const found: string[] = [];
  for await (const { server, imports } of importsOfServers(store, tenant, servers)) {
    if (imports.some((name) => names.has(name))) found.push(server);
  }
  return found.sort();
}

/** The packages that each server imports, for those that import any. */
export async function* importsOfServers(
  store: Pick<Store, "content" | "contents">,
  tenant: string,
  servers: ReadonlyMap<string, DirectoryEntry>,
): AsyncGenerator<{ readonly server: string; readonly imports: readonly string[] }> {
  const takeTurns = createYielder();
  for (const [server, { definition, entry }] of servers) {
    await takeTurns();
    const sources = [definition, ...Object.values(entry.transforms)].filter((cid) => cid !== undefined);
    const imports = new Set<string>();
    for (const source of sources) {
      for (const name of await packagesImportedBy(store, tenant, source)) imports.add(name);
    }
    if (imports.size > 0) yield { server, imports: [...imports] };
  }
}

/** By the definition's CID, whose imports never change. */
const known = new BoundedMap<Cid, readonly string[]>(20_000);

/** The names of the packages that a source imports; none for one that is damaged. */
export async function packagesImportedBy(
  store: Pick<Store, "content" | "contents">,
  tenant: string,
  definition: Cid,
): Promise<readonly string[]> {
  const imports = known.get(definition);
  if (imports) return imports;
  // A source of one file is named after its server, and its imports are the same whatever that is.
  const loading = loadStoredDefinition(store, tenant, definition, "server");
  const source = await unlessDamaged(loading).catch((error: unknown) => {
    if (!(error instanceof BerthError && error.code === "image_invalid")) throw error;
  });
  // Damaged content may be repaired.
  if (!source) return [];
  const names = [...new Set(findPackageImports(source).map(packageName))];
  known.set(definition, names);
  return names;
}

/** The packages that are part of a release, sorted by name; none where it has none, or they cannot be read. */
export async function packagesOfRelease(
  store: Pick<Store, "content">,
  tenant: string,
  release: Cid,
): Promise<readonly Pick<LockedPackage, "name" | "version" | "supplied">[]> {
  const structure = async (cid: unknown): Promise<unknown> =>
    typeof cid === "string" ? storedStructure(store, tenant, cid) : undefined;
  const parts = await structure(release);
  const set = isObject(parts) ? asPackageSet(await structure(parts["packages"])) : undefined;
  const all = Object.values(set?.packages ?? {});
  return all.sort((one, other) => compareText(one.name, other.name));
}
