import { BoundedMap } from "../lib/bounded-map.ts";
import { hashYielding, type Block, type Cid } from "../lib/cid.ts";
import { BerthError } from "../lib/errors.ts";
import type { Limits } from "../limits/limits.ts";
import type { Npm } from "../packages/npm.ts";
import { isVariant, type LockedPackage, type PackageSet } from "../packages/package-set.ts";
import type { Store } from "../store/store.ts";
import { unlessDamaged } from "../store/unless-damaged.ts";

/** Resolves sets and fetches their tarballs: npm, confined. */
export type PackageSource = Pick<Npm, "resolve" | "fetch">;

/** The input for resolving a set. */
export interface ResolveRequest {
  readonly dependencies: Readonly<Record<string, string>>;
  /** Stays locked, except for what `update` names. */
  readonly previous?: PackageSet | undefined;
  readonly update?: true | readonly string[] | undefined;
}

/** A set whose tarballs the tenant has, once `blocks` are stored. */
export interface SuppliedSet {
  readonly set: PackageSet;
  readonly blocks: readonly Block[];
}

/** After this time, another set of the same tenant may be resolved. */
const RETRY_AFTER_S = 5;
/** A save that follows a review saves what was reviewed, whatever has changed in the registry since. */
const RESOLVED_MS = 600_000;
/** Tenants whose last result is cached. */
const RESOLVED_MAX = 64;

/**
 * Resolves package sets for saves and reviews, one at a time per tenant. Results and tarballs of a review stay in
 * memory for a save that may follow; nothing is stored before that.
 */
export class PackageSupply {
  readonly #source: PackageSource | undefined;
  /** Tarballs that no save has stored yet. */
  readonly #tarballs: BoundedMap<string, Block>;
  readonly #resolved = new BoundedMap<string, { key: string; at: number; set: PackageSet }>(RESOLVED_MAX);
  readonly #busy = new Set<string>();

  /** Without a source, only sets whose tarballs the tenant already has are available. */
  constructor(source: PackageSource | undefined, { reviewedPackageBytes }: Pick<Limits, "reviewedPackageBytes">) {
    this.#source = source;
    this.#tarballs = new BoundedMap(reviewedPackageBytes, ({ bytes }) => bytes.length);
  }

  /** Rejects with `packages_refused`, `packages_unavailable` or `too_many_requests`. */
  async resolve(tenant: string, request: ResolveRequest, { mayBeKnown = false } = {}): Promise<PackageSet> {
    const key = JSON.stringify([request.dependencies, request.update ?? null, request.previous ?? null]);
    const cached = this.#resolved.get(tenant);
    if (mayBeKnown && cached?.key === key && Date.now() - cached.at < RESOLVED_MS) return cached.set;
    return this.#exclusively(tenant, async (source) => {
      const set = await source.resolve(request.dependencies, request.previous, request.update);
      this.#resolved.set(tenant, { key, at: Date.now(), set });
      return set;
    });
  }

  /**
   * The set with all its tarballs. Tarballs of `current`, the tenant's set, exist; others are looked up in the tenant's
   * content, and fetched if missing. Whatever a set claims, a tarball is identified by its sha512, and counts as
   * supplied unless the registry has it under this name and version, or a saved set (`earlier`) marks it otherwise.
   */
  async supply(
    store: Store,
    tenant: string,
    set: PackageSet,
    current: PackageSet | undefined,
    earlier?: PackageSet,
  ): Promise<SuppliedSet> {
    const available = new Map<string, Cid>();
    for (const { integrity, tarball } of Object.values(current?.packages ?? {})) {
      if (tarball !== undefined) available.set(integrity, tarball);
    }
    const saved = [earlier, current].flatMap((each) => Object.values(each?.packages ?? {}));
    const marks = new Map(saved.map((locked) => [packageIdentity(locked), locked.supplied === true]));
    const missing = new Map<string, LockedPackage>();
    const blocks = new Map<Cid, Block>();
    for (const locked of Object.values(set.packages)) {
      if (isVariant(locked) || available.has(locked.integrity) || missing.has(locked.integrity)) continue;
      const { integrity, tarball } = locked;
      const fetched = this.#tarballs.get(tarballKey(tenant, locked));
      if (fetched) {
        marks.set(packageIdentity(locked), false);
        available.set(integrity, fetched.cid);
        blocks.set(fetched.cid, fetched);
      } else if (tarball !== undefined && (await hasTarball(store, tenant, tarball, integrity)))
        available.set(integrity, tarball);
      else missing.set(integrity, locked);
    }
    if (missing.size > 0) {
      // The CIDs in the source are compared below, where the package can be named.
      const wanted = Array.from(missing.values(), ({ name, version, integrity }) => ({ name, version, integrity }));
      const packages = Object.fromEntries(wanted.map((locked, index) => [`node_modules/p${index}`, locked]));
      const fetchedSet = await this.#exclusively(tenant, (source) =>
        source.fetch({ dependencies: {}, packages }, () => undefined),
      );
      const byCid = new Map(fetchedSet.blocks.map((block) => [block.cid, block]));
      for (const locked of Object.values(fetchedSet.set.packages)) {
        const block = locked.tarball === undefined ? undefined : byCid.get(locked.tarball);
        if (!block) continue;
        marks.set(packageIdentity(locked), false);
        available.set(locked.integrity, block.cid);
        blocks.set(block.cid, block);
        this.#tarballs.set(tarballKey(tenant, locked), block);
      }
    }
    const packages: Record<string, LockedPackage> = {};
    for (const [place, locked] of Object.entries(set.packages)) {
      const isSupplied = marks.get(packageIdentity(locked)) ?? true;
      packages[place] = isVariant(locked) ? locked : withTarball(locked, available.get(locked.integrity), isSupplied);
    }
    return { set: { ...set, packages }, blocks: [...blocks.values()] };
  }

  async #exclusively<Result>(tenant: string, work: (source: PackageSource) => Promise<Result>): Promise<Result> {
    if (!this.#source) throw new BerthError("packages_unavailable", "fetching packages is turned off");
    if (this.#busy.has(tenant)) {
      const message = `other packages of this tenant are being resolved; try again in ${RETRY_AFTER_S} s`;
      throw new BerthError("too_many_requests", message, { data: { retryAfterSeconds: RETRY_AFTER_S } });
    }
    this.#busy.add(tenant);
    try {
      return await work(this.#source);
    } finally {
      this.#busy.delete(tenant);
    }
  }
}

/** The order of fields is the same in all sets. Throws if the set names other bytes than those with its sha512. */
function withTarball(locked: LockedPackage, cid: Cid | undefined, isSupplied: boolean): LockedPackage {
  const { name, version, integrity, tarball, supplied: _, ...rest } = locked;
  const which = `${name}@${version}`;
  const refusal = (detail: string): BerthError =>
    new BerthError("packages_refused", `${which}: ${detail}`, { data: { package: which } });
  if (cid === undefined) throw refusal("its tarball could not be fetched");
  if (tarball !== undefined && tarball !== cid) {
    throw refusal(`"tarball" is not the CID of the bytes with its sha512, which is ${cid}; leave it out`);
  }
  return { name, version, integrity, tarball: cid, ...(isSupplied && { supplied: true }), ...rest };
}

async function hasTarball(store: Store, tenant: string, tarball: Cid, integrity: string): Promise<boolean> {
  const bytes = await unlessDamaged(store.content(tenant, tarball));
  return bytes !== undefined && `sha512-${(await hashYielding(bytes, "sha512")).toString("base64")}` === integrity;
}

function tarballKey(tenant: string, locked: LockedPackage): string {
  return JSON.stringify([tenant, packageIdentity(locked)]);
}

function packageIdentity({ name, version, integrity }: LockedPackage): string {
  return `${name}@${version} ${integrity}`;
}
