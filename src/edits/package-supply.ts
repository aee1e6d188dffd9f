import { BoundedMap } from "../lib/bounded-map.ts";
import { hashedInTurns, type Block, type Cid } from "../lib/cid.ts";
import { BerthError } from "../lib/errors.ts";
import type { Limits } from "../limits/limits.ts";
import type { Npm } from "../packages/npm.ts";
import { isVariant, type LockedPackage, type PackageSet } from "../packages/package-set.ts";
import { ifSound } from "../store/if-sound.ts";
import type { Store } from "../store/store.ts";

/** The maker of sets, which brings their tarballs: npm, in its confinement. */
export type PackageSource = Pick<Npm, "resolve" | "fetch">;

/** The input of a set. */
export interface PackageWish {
  readonly dependencies: Readonly<Record<string, string>>;
  /** Stays locked, except for what `update` names. */
  readonly previous?: PackageSet | undefined;
  readonly update?: true | readonly string[] | undefined;
}

/** A set whose tarballs the tenant holds, once these are put. */
export interface SuppliedSet {
  readonly set: PackageSet;
  readonly blocks: readonly Block[];
}

/** The time after which another set of the same tenant may be resolved. */
const RETRY_AFTER_S = 5;
/** A save that follows a review saves what was reviewed, and a registry that has moved since changes nothing of that. */
const RESOLVED_MS = 600_000;
/** Tenants whose last result is remembered. */
const RESOLVED_MAX = 64;

/**
 * Makes sets of packages for saves and reviews, one at a time for each tenant. What was resolved and fetched for a review
 * stays in memory for the save that may follow; nothing is kept in the store before that.
 */
export class PackageSupply {
  readonly #source: PackageSource | undefined;
  /** Tarballs that no save has put into the store yet. */
  readonly #tarballs: BoundedMap<string, Block>;
  readonly #resolved = new BoundedMap<string, { key: string; at: number; set: PackageSet }>(RESOLVED_MAX);
  readonly #busy = new Set<string>();

  /** Without a source, only sets whose tarballs the tenant holds already can be had. */
  constructor(source: PackageSource | undefined, { reviewedPackageBytes }: Pick<Limits, "reviewedPackageBytes">) {
    this.#source = source;
    this.#tarballs = new BoundedMap(reviewedPackageBytes, ({ bytes }) => bytes.length);
  }

  /** Rejects with `packages_refused`, `packages_unavailable` or `too_many_requests`. */
  async resolve(tenant: string, wish: PackageWish, { mayBeKnown = false } = {}): Promise<PackageSet> {
    const key = JSON.stringify([wish.dependencies, wish.update ?? null, wish.previous ?? null]);
    const known = this.#resolved.get(tenant);
    if (mayBeKnown && known?.key === key && Date.now() - known.at < RESOLVED_MS) return known.set;
    return this.#alone(tenant, async (source) => {
      const set = await source.resolve(wish.dependencies, wish.previous, wish.update);
      this.#resolved.set(tenant, { key, at: Date.now(), set });
      return set;
    });
  }

  /**
   * The set with all of its tarballs. Those that `current`, the tenant's set, has are there; others are looked for in
   * what the tenant holds, and fetched if it does not. Whatever a set says, a tarball counts as what its sha512 says, and
   * as supplied unless the registry had it under this name and version, or a set that was saved (`earlier`) says so.
   */
  async supply(
    store: Store,
    tenant: string,
    set: PackageSet,
    current: PackageSet | undefined,
    earlier?: PackageSet,
  ): Promise<SuppliedSet> {
    const held = new Map<string, Cid>();
    for (const { integrity, tarball } of Object.values(current?.packages ?? {})) {
      if (tarball !== undefined) held.set(integrity, tarball);
    }
    const saved = [earlier, current].flatMap((each) => Object.values(each?.packages ?? {}));
    const marks = new Map(saved.map((locked) => [identityOf(locked), locked.supplied === true]));
    const missing = new Map<string, LockedPackage>();
    const blocks = new Map<Cid, Block>();
    for (const locked of Object.values(set.packages)) {
      if (isVariant(locked) || held.has(locked.integrity) || missing.has(locked.integrity)) continue;
      const { integrity, tarball } = locked;
      const fetched = this.#tarballs.get(keyOf(tenant, locked));
      if (fetched) {
        marks.set(identityOf(locked), false);
        held.set(integrity, fetched.cid);
        blocks.set(fetched.cid, fetched);
      } else if (tarball !== undefined && (await isHeld(store, tenant, tarball, integrity)))
        held.set(integrity, tarball);
      else missing.set(integrity, locked);
    }
    if (missing.size > 0) {
      // The CIDs of a text are compared below, where the package can be named.
      const wanted = Array.from(missing.values(), ({ name, version, integrity }) => ({ name, version, integrity }));
      const packages = Object.fromEntries(wanted.map((locked, index) => [`node_modules/p${index}`, locked]));
      const brought = await this.#alone(tenant, (source) =>
        source.fetch({ dependencies: {}, packages }, () => undefined),
      );
      const byCid = new Map(brought.blocks.map((block) => [block.cid, block]));
      for (const locked of Object.values(brought.set.packages)) {
        const block = locked.tarball === undefined ? undefined : byCid.get(locked.tarball);
        if (!block) continue;
        marks.set(identityOf(locked), false);
        held.set(locked.integrity, block.cid);
        blocks.set(block.cid, block);
        this.#tarballs.set(keyOf(tenant, locked), block);
      }
    }
    const packages: Record<string, LockedPackage> = {};
    for (const [place, locked] of Object.entries(set.packages)) {
      const isSupplied = marks.get(identityOf(locked)) ?? true;
      packages[place] = isVariant(locked) ? locked : withTarball(locked, held.get(locked.integrity), isSupplied);
    }
    return { set: { ...set, packages }, blocks: [...blocks.values()] };
  }

  async #alone<Made>(tenant: string, work: (source: PackageSource) => Promise<Made>): Promise<Made> {
    if (!this.#source) throw new BerthError("packages_unavailable", "this Berth fetches no packages");
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

/** The order of fields is that of all sets. Throws where the set names other bytes than those with its sha512. */
function withTarball(locked: LockedPackage, cid: Cid | undefined, isSupplied: boolean): LockedPackage {
  const { name, version, integrity, tarball, supplied: _, ...rest } = locked;
  const which = `${name}@${version}`;
  const refused = (detail: string): BerthError =>
    new BerthError("packages_refused", `${which}: ${detail}`, { data: { package: which } });
  if (cid === undefined) throw refused("its tarball could not be fetched");
  if (tarball !== undefined && tarball !== cid) {
    throw refused(`"tarball" is not the CID of the bytes with its sha512, which is ${cid}; leave it out`);
  }
  return { name, version, integrity, tarball: cid, ...(isSupplied && { supplied: true }), ...rest };
}

async function isHeld(store: Store, tenant: string, tarball: Cid, integrity: string): Promise<boolean> {
  const bytes = await ifSound(store.content(tenant, tarball));
  return bytes !== undefined && `sha512-${(await hashedInTurns(bytes, "sha512")).toString("base64")}` === integrity;
}

function keyOf(tenant: string, locked: LockedPackage): string {
  return JSON.stringify([tenant, identityOf(locked)]);
}

function identityOf({ name, version, integrity }: LockedPackage): string {
  return `${name}@${version} ${integrity}`;
}
