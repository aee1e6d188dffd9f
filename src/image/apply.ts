import { jsonBlock, type Block, type Cid } from "../cid.ts";
import { BerthError } from "../errors.ts";
import { ifSound } from "../store/if-sound.ts";
import type { Store } from "../store/store.ts";
import { derivedEntries, readCompiled, type CompiledResult } from "./compiled.ts";
import type { Image, Manifest } from "./image.ts";
import { planNames, type NameReport, type Plan } from "./plan-names.ts";
import { parseManifest } from "./read.ts";

/** What applying an image did to a tenant's names. */
export interface ApplyReport {
  readonly image: Cid;
  /** False when this image was applied last, and nothing was looked at. */
  readonly applied: boolean;
  /** Names that followed the image. */
  readonly changed: readonly NameReport[];
  /** Names that were edited here and stay so, whether or not the image changed them too. */
  readonly kept: readonly NameReport[];
}

export interface ApplyOptions {
  /** What the image says was compiled counts for all tenants; else it is compiled anew when it is needed. */
  readonly believesCompiled: boolean;
}

/** The name under which a store remembers the manifest that was applied last. */
const APPLIED = "applied";
const ATTEMPTS = 5;

/**
 * Brings a tenant's names to an image, in one transaction: names that nobody edited follow it, edited ones stay
 * and are reported. The variable `mcps` is merged entry by entry. An image that was applied last costs one look-up.
 */
export async function applyImage(
  store: Store,
  tenant: string,
  image: Image,
  options: ApplyOptions = { believesCompiled: true },
): Promise<ApplyReport> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await applyOnce(store, tenant, image, options);
    } catch (error) {
      // A person edited in between: their edit is read and merged too.
      const moved = error instanceof BerthError && error.code === "name_moved";
      if (!moved || attempt === ATTEMPTS) throw error;
    }
  }
}

async function applyOnce(
  store: Store,
  tenant: string,
  image: Image,
  { believesCompiled }: ApplyOptions,
): Promise<ApplyReport> {
  const last = await store.name(tenant, "image", APPLIED);
  if (last?.cid === image.cid) return { image: image.cid, applied: false, changed: [], kept: [] };

  const base = last && (await readManifest(store, tenant, last.cid));
  const plan: Plan = { put: contentOf(image, base), set: [], names: [] };
  await planNames(plan, store, tenant, base, image);

  const manifest = jsonBlock(image.manifest);
  plan.put.push(manifest);
  plan.set.push({ kind: "image", name: APPLIED, cid: manifest.cid, expected: last?.cid ?? null });

  // Derived results say nothing by themselves: that they may be there without the names does no harm.
  if (believesCompiled) await store.putDerived(tenant, derivedOf(image, base));
  await store.change(tenant, { by: "image", put: plan.put, set: plan.set });
  const isKept = ({ outcome }: NameReport): boolean => outcome === "kept" || outcome === "conflict";
  return {
    image: image.cid,
    applied: true,
    changed: plan.names.filter((name) => !isKept(name)),
    kept: plan.names.filter(isKept),
  };
}

/** Undefined where it went bad on the disk: then everything counts as edited here, and stays. */
async function readManifest(store: Store, tenant: string, cid: Cid): Promise<Manifest | undefined> {
  const bytes = await ifSound(store.content(tenant, cid));
  return bytes && parseManifest(bytes, cid);
}

/** What the last image did not bring already. */
function contentOf(image: Image, base: Manifest | undefined): Block[] {
  const held = new Set(base?.content);
  return image.manifest.content.filter((cid) => !held.has(cid)).map((cid) => ({ cid, bytes: image.content(cid) }));
}

function derivedOf(image: Image, base: Manifest | undefined): { key: string; block: Block }[] {
  const held = new Map(Object.entries(base?.derived ?? {}));
  return Object.entries(image.manifest.derived).flatMap(([key, cid]) => {
    if (held.get(key) === cid) return [];
    const result = { cid, bytes: image.content(cid) };
    const compiled = compiledHere(result.bytes);
    if (!compiled) return [];
    const bundle =
      compiled.bundle === null ? undefined : { cid: compiled.bundle, bytes: image.content(compiled.bundle) };
    return derivedEntries(key, { result, bundle });
  });
}

/** Undefined for what another version of Berth made: it stands under that version's key, which is not asked for here. */
function compiledHere(bytes: Uint8Array): CompiledResult | undefined {
  try {
    return readCompiled(bytes);
  } catch (error) {
    if (error instanceof BerthError && error.code === "image_invalid") return undefined;
    throw error;
  }
}
