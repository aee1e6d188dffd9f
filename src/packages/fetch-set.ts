import { hashYielding, rawBlockYielding, type Block } from "../lib/cid.ts";
import { BerthError } from "../lib/errors.ts";
import { limitVariable, type Limits } from "../limits/limits.ts";
import { isGone, isOfNobody, NpmFailed } from "./npm-runs.ts";
import { isVariant, type LockedPackage, type PackageSet } from "./package-set.ts";
import { setBounds } from "./set-bounds.ts";

/** Looks a tarball up by its sha512, as npm writes it. What it gives is checked. */
export type HaveTarball = (integrity: string) => Promise<Uint8Array | undefined> | Uint8Array | undefined;

/** Brings tarballs in any order, and gives each to `take`. */
export type BringTarballs = (
  packages: readonly LockedPackage[],
  take: (tarball: Uint8Array) => Promise<void>,
) => Promise<void>;

export type SetLimits = Pick<Limits, "packageSetBytes">;

export interface FetchedSet {
  /** With the CIDs of its tarballs. */
  readonly set: PackageSet;
  /** The tarballs, once each. */
  readonly blocks: Block[];
}

/**
 * Finds the tarballs of a set: where they are known already, and else through npm. Each counts as what its sha512 says,
 * whoever brought it and whatever it was called. Rejects where one is missing; then there is nothing.
 */
export async function fetchSet(
  set: PackageSet,
  have: HaveTarball,
  bring: BringTarballs,
  limits: SetLimits,
): Promise<FetchedSet> {
  const wanted = tarballsOf(set);
  const count = Object.keys(set.packages).length;
  const { packagesPerSet } = setBounds;
  if (count > packagesPerSet) throw refused(`the set has ${count} packages, more than ${packagesPerSet}`);
  const found = new FoundTarballs(limits);
  for (const [integrity, locked] of wanted) {
    const known = await have(integrity);
    if (known && known.length <= setBounds.packageBytes && (await sha512Of(known)) === integrity)
      await found.add(integrity, known, locked);
  }
  const missing = [...wanted].filter(([integrity]) => !found.blocks.has(integrity)).map(([, locked]) => locked);
  if (missing.length > 0) {
    try {
      await bring(missing, async (tarball) => {
        const integrity = await sha512Of(tarball);
        const locked = wanted.get(integrity);
        if (locked) await found.add(integrity, tarball, locked);
      });
    } catch (error) {
      throw error instanceof NpmFailed ? asBerthError(error) : error;
    }
  }
  const lost = missing.find(({ integrity }) => !found.blocks.has(integrity));
  if (lost) {
    throw refused(
      `what the registry has for ${named(lost)} does not have the sha512 of the lock: ` +
        "it was changed there, or the lock was; resolve this package again only if you know why",
      lost,
    );
  }
  const packages = Object.entries(set.packages).map(([place, locked]) => {
    const block = found.blocks.get(locked.integrity);
    return [place, block && !isVariant(locked) ? { ...locked, tarball: block.cid } : locked] as const;
  });
  return { set: { ...set, packages: Object.fromEntries(packages) }, blocks: [...found.blocks.values()] };
}

/** By integrity. A variant for some machines has none: no bundle can hold it. */
function tarballsOf({ packages }: PackageSet): Map<string, LockedPackage> {
  const all = Object.values(packages).filter((locked) => !isVariant(locked));
  return new Map(all.map((locked) => [locked.integrity, locked]));
}

class FoundTarballs {
  readonly blocks = new Map<string, Block>();
  readonly #limits: SetLimits;
  #bytes = 0;

  constructor(limits: SetLimits) {
    this.#limits = limits;
  }

  async add(integrity: string, tarball: Uint8Array, locked: LockedPackage): Promise<void> {
    if (this.blocks.has(integrity)) return;
    const { packageBytes } = setBounds;
    const { packageSetBytes } = this.#limits;
    if (tarball.length > packageBytes) {
      throw refused(`${named(locked)} has ${tarball.length} bytes, more than ${packageBytes}`, locked);
    }
    this.#bytes += tarball.length;
    if (this.#bytes > packageSetBytes) {
      const limit = limitVariable("packageSetBytes");
      throw refused(`the tarballs have more than ${packageSetBytes} bytes together (${limit})`);
    }
    const block = await rawBlockYielding(tarball);
    if (locked.tarball !== undefined && locked.tarball !== block.cid)
      throw refused(`the set has a wrong CID for ${named(locked)}: resolve it again`, locked);
    this.blocks.set(integrity, block);
  }
}

async function sha512Of(bytes: Uint8Array): Promise<string> {
  return `sha512-${(await hashYielding(bytes, "sha512")).toString("base64")}`;
}

function named({ name, version }: Pick<LockedPackage, "name" | "version">): string {
  return `${name}@${version}`;
}

export function refused(detail: string, locked?: Pick<LockedPackage, "name" | "version">): BerthError {
  return new BerthError("packages_refused", detail, locked && { data: { package: named(locked) } });
}

/** npm's failure as an error for those who asked for packages. */
export function asBerthError(failed: NpmFailed): BerthError {
  const { code, message } = failed;
  const data = {
    data: { npmCode: code, ...(failed.package !== undefined && { package: failed.package }) },
    cause: failed,
  };
  const which = failed.package === undefined ? "" : `${failed.package}: `;
  if (isGone(code))
    return new BerthError("packages_refused", `${which}the registry does not have it (${message})`, data);
  if (code === "EINTEGRITY") {
    const detail = `${which}its tarball is not what the registry says of it (${message})`;
    return new BerthError("packages_refused", detail, data);
  }
  if (code.startsWith("EALLOW")) {
    const kind = code.slice("EALLOW".length).toLowerCase();
    const detail = `${which}something that it needs is at an address of the kind "${kind}": only packages of the registry are taken`;
    return new BerthError("packages_refused", detail, data);
  }
  if (isOfNobody(code)) return new BerthError("packages_unavailable", `${which}${message} (${code}); try again`, data);
  return new BerthError("packages_refused", `${which}${message} (${code})`, data);
}
