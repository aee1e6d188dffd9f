import type { Rights } from "../access/rights.ts";
import type { Review, Saved } from "../contract/review.ts";
import { loadPackageSet } from "../host/catalog/compile-once.ts";
import { readDirectory, type Directory } from "../host/directory/directory.ts";
import { importsOfServers } from "../host/directory/package-users.ts";
import type { CancelSignal } from "../lib/cancellation.ts";
import { rawBlock, type Cid } from "../lib/cid.ts";
import { BerthError } from "../lib/errors.ts";
import { compareText } from "../lib/pretty-json.ts";
import { isPackageName } from "../packages/package-name.ts";
import { PACKAGES, packagesInReach, placeOf, type LockedPackage, type PackageSet } from "../packages/package-set.ts";
import type { Store } from "../store/store.ts";
import { singleText } from "./earlier-versions.ts";
import type { Edits, SaveOptions, Subject } from "./edits.ts";
import type { PackageSupply } from "./package-supply.ts";
import { packageSetText } from "./plan-packages.ts";

/**
 * Edits a tenant's npm packages by name and range instead of by the source of the variable `packages`, which they
 * result in. It knows neither npm nor HTTP.
 */
export interface PackageEdits {
  /** True if the tenant may have packages. */
  mayHave(tenant: string): boolean;
  read(tenant: string): Promise<TenantPackages>;
  /**
   * Reports what a change would do, without doing it. Rejects with `forbidden`, `read_only`, `packages_refused`,
   * `packages_unavailable`, and with `too_many_requests` while another change of the tenant is being resolved.
   */
  review(tenant: string, change: PackageRequest, rights: Rights, signal?: CancelSignal): Promise<ReviewedPackages>;
  /** Saves the result of the change; with `set`, only if its CID matches. Also rejects as `Edits.save` does. */
  save(tenant: string, change: PackageRequest, options: SaveOptions & { readonly set?: Cid }): Promise<Saved>;
}

/** A change of a set in npm's terms. */
export interface PackageRequest {
  /** Such as `papaparse@^5`, or `papaparse` for the newest version. */
  readonly add: readonly string[];
  /** Names. */
  readonly remove: readonly string[];
  /** Names of packages that get the newest version in their range; true for all. */
  readonly update: true | readonly string[];
}

export interface ReviewedPackages {
  /** The CID of the variable after the change. */
  readonly set: Cid;
  readonly review: Review;
}

export interface TenantPackages {
  /** The CID of the variable; null if there is none. */
  readonly cid: Cid | null;
  /** The version of npm that resolved the set, if known. */
  readonly npm?: string;
  /** Packages that definitions may import, followed by the others; each sorted by name. */
  readonly packages: readonly ListedPackage[];
}

export interface ListedPackage extends Pick<LockedPackage, "name" | "version" | "integrity" | "tarball" | "supplied"> {
  readonly path: string;
  /** True if definitions may import it. */
  readonly direct: boolean;
  /** The range, if direct. */
  readonly range?: string;
  /** The first servers, sorted, whose code may contain it. */
  readonly servers: readonly string[];
  readonly moreServers?: number;
}

/** Per package. */
const SERVERS_LISTED_MAX = 20;

export interface PackageEditsDependencies {
  readonly store: Store;
  readonly edits: Edits;
  readonly supply: PackageSupply;
  readonly writable: boolean;
  readonly mayHave: (tenant: string) => boolean;
  /** The cached directory of a tenant that is served. */
  readonly directory?: (tenant: string) => Directory | undefined;
}

const subject: Subject = { kind: "variable", name: PACKAGES };

export function createPackageEdits(dependencies: PackageEditsDependencies): PackageEdits {
  const { store, edits, supply, writable, mayHave, directory } = dependencies;

  /** Checked before any registry is contacted. */
  function check(tenant: string, rights: Rights): void {
    if (!writable) throw new BerthError("read_only");
    if (!rights.has("values", undefined)) throw rights.refusal("values", undefined, "to change the packages");
    if (mayHave(tenant)) return;
    const message = `the tenant "${tenant}" may not have npm packages; its operator can allow it with BERTH_TENANT_PACKAGES`;
    throw new BerthError("forbidden", message);
  }

  /** The source that the change results in, and the version that it starts from. */
  async function applyRequest(
    tenant: string,
    { add, remove, update }: PackageRequest,
    { mayBeKnown }: { readonly mayBeKnown: boolean },
  ): Promise<{ readonly text: string; readonly current: Cid | null }> {
    const current = (await store.name(tenant, "variable", PACKAGES))?.cid ?? null;
    const previous = await loadPackageSet(store, tenant);
    const dependencies: Record<string, string> = { ...previous?.dependencies };
    for (const name of [...remove, ...(update === true ? [] : update)]) {
      if (!previous || !Object.hasOwn(previous.dependencies, name)) throw refusal(`${quoted(name)} is not in the set`);
    }
    for (const name of remove) delete dependencies[name];
    for (const spec of add) {
      const { name, range } = parseSpec(spec);
      if (remove.includes(name)) throw refusal(`${quoted(name)} cannot be both added and removed`);
      dependencies[name] = range;
    }
    const isRemovalOnly = add.length === 0 && update !== true && update.length === 0;
    const sorted = Object.fromEntries(Object.entries(dependencies).sort(([one], [other]) => compareText(one, other)));
    const wish = { dependencies: sorted, previous, ...((update === true || update.length > 0) && { update }) };
    const set = isRemovalOnly
      ? withDependencies(previous!, sorted)
      : await supply.resolve(tenant, wish, { mayBeKnown });
    const supplied = await supply.supply(store, tenant, set, previous);
    return { text: await packageSetText(supplied.set), current };
  }

  return {
    mayHave,

    read: (tenant) => readTenantPackages(store, tenant, directory?.(tenant)),

    async review(tenant, change, rights, signal) {
      check(tenant, rights);
      const { text } = await applyRequest(tenant, change, { mayBeKnown: false });
      const review = await edits.review(tenant, subject, singleText(PACKAGES, text), rights, signal);
      return { set: rawBlock(text).cid, review };
    },

    async save(tenant, change, { set, ...options }) {
      check(tenant, options.rights);
      const { text, current } = await applyRequest(tenant, change, { mayBeKnown: true });
      const { cid } = rawBlock(text);
      if (set !== undefined && set !== cid) {
        throw refusal(
          `the registry has changed since the review: the set would now be ${cid}; review the change again`,
        );
      }
      return edits.save(tenant, subject, singleText(PACKAGES, text), {
        ...options,
        expected: options.expected ?? current,
      });
    },
  };
}

/** The packages of a tenant, and their users. `known` is its directory, if cached. */
export async function readTenantPackages(store: Store, tenant: string, known?: Directory): Promise<TenantPackages> {
  const cid = (await store.name(tenant, "variable", PACKAGES))?.cid ?? null;
  const set = await loadPackageSet(store, tenant);
  if (!set) return { cid, packages: [] };
  const { servers } = await readDirectory(store, tenant, known);
  const users = new Map<string, string[]>();
  const reach = new Map<string, readonly string[]>();
  for await (const { server, imports } of importsOfServers(store, tenant, servers)) {
    const places = new Set<string>();
    for (const name of imports) {
      const reached = reach.get(name) ?? Object.keys(packagesInReach(set, [name])?.packages ?? {});
      reach.set(name, reached);
      for (const place of reached) places.add(place);
    }
    for (const place of places) (users.get(place) ?? users.set(place, []).get(place)!).push(server);
  }
  const direct = new Map(Object.entries(set.dependencies).map(([name, range]) => [placeOf(set, name, ""), range]));
  const packages = Object.entries(set.packages).map(([place, { name, version, integrity, tarball, supplied }]) => {
    const servers = (users.get(place) ?? []).sort(compareText);
    const listed = {
      name,
      version,
      direct: direct.has(place),
      path: place,
      integrity,
      ...(tarball !== undefined && { tarball }),
      ...(supplied && { supplied }),
      servers: servers.slice(0, SERVERS_LISTED_MAX),
    };
    const range = direct.has(place) && { range: direct.get(place)! };
    return Object.assign(
      listed,
      range,
      servers.length > SERVERS_LISTED_MAX && { moreServers: servers.length - SERVERS_LISTED_MAX },
    );
  });
  packages.sort(
    (one, other) =>
      Number(other.direct) - Number(one.direct) ||
      compareText(one.name, other.name) ||
      compareText(one.path, other.path),
  );
  return { cid, ...(set.npm !== undefined && { npm: set.npm }), packages };
}

/** Splits `@scope/name@range` into its name and its range, which may be empty. */
function parseSpec(spec: string): { readonly name: string; readonly range: string } {
  const text = spec.trim();
  const at = text.indexOf("@", 1);
  const name = at < 0 ? text : text.slice(0, at);
  if (isPackageName(name)) return { name, range: at < 0 ? "" : text.slice(at + 1).trim() };
  throw refusal(`${quoted(text)} is not a package of the registry; use a name with a range, such as papaparse@^5`);
}

/** The set with fewer dependencies, and their own. No registry is needed for that. */
function withDependencies(set: PackageSet, dependencies: Readonly<Record<string, string>>): PackageSet {
  const reachable = new Set<string>();
  const queue = Object.keys(dependencies).map((name) => ({ name, from: "" }));
  for (const { name, from } of queue) {
    const place = placeOf(set, name, from);
    if (place === undefined || reachable.has(place)) continue;
    reachable.add(place);
    for (const dependency of set.packages[place]!.dependencies ?? []) queue.push({ name: dependency, from: place });
  }
  const only = <Value>(all: Readonly<Record<string, Value>>): Record<string, Value> =>
    Object.fromEntries(Object.entries(all).filter(([place]) => reachable.has(place)));
  const { lines, packages, npm } = set;
  return {
    dependencies,
    ...(npm !== undefined && { npm }),
    packages: only(packages),
    ...(lines && { lines: only(lines) }),
  };
}

function refusal(detail: string): BerthError {
  return new BerthError("packages_refused", detail);
}

function quoted(text: string): string {
  return JSON.stringify(text.length > QUOTED_UNITS ? `${text.slice(0, QUOTED_UNITS)}…` : text);
}

const QUOTED_UNITS = 120;
