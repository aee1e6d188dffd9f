import { jsonBlock, type Block, type Cid } from "../lib/cid.ts";
import { BerthError } from "../lib/errors.ts";
import { ifSound } from "../store/if-sound.ts";
import type { Store } from "../store/store.ts";
import { APPLIED, beliefIn, compiledHere, isBelieved } from "./claimed.ts";
import type { Image, Manifest } from "./image.ts";
import { planNames, type NameReport, type NamesPlan } from "./plan-names.ts";
import { parseManifest } from "./read.ts";

/** The effect of applying an image on a tenant's names. */
export interface ApplyReport {
  readonly image: Cid;
  /** False when this image was applied last, and nothing was examined. */
  readonly applied: boolean;
  /** Names that followed the image. */
  readonly changed: readonly NameReport[];
  /** Names that were edited here and keep the edit, even if the image changed them too. */
  readonly kept: readonly NameReport[];
}

export interface ApplyOptions {
  /** The image's compiled results count for this tenant; otherwise definitions are compiled again when needed. */
  readonly believesCompiled: boolean;
}

const ATTEMPTS = 5;

/**
 * Brings a tenant's names to an image, in one transaction: names that nobody edited follow it, edited ones stay and are
 * reported. The variable `mcps` is merged entry by entry. If the image was applied last, this costs two look-ups.
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
  if (last?.cid === image.cid) {
    if (believesCompiled && !(await isBelieved(store, tenant, image.cid))) {
      // An earlier version of Berth applied it, or it came with a tenant's file.
      await store.change(tenant, {
        by: "image",
        put: claimsOf(image, undefined),
        derived: [beliefIn(tenant, image.cid)],
      });
    }
    return { image: image.cid, applied: false, changed: [], kept: [] };
  }

  const base = last && (await readManifest(store, tenant, last.cid));
  const plan: NamesPlan = { put: contentOf(image, base), set: [], names: [] };
  await planNames(plan, store, tenant, base, image);

  const manifest = jsonBlock(image.manifest);
  plan.put.push(manifest);
  plan.set.push({ kind: "image", name: APPLIED, cid: manifest.cid, expected: last?.cid ?? null });

  if (believesCompiled) {
    const isBaseBelieved = last !== undefined && (await isBelieved(store, tenant, last.cid));
    plan.put.push(...claimsOf(image, isBaseBelieved ? base : undefined));
  }
  const derived = believesCompiled ? [beliefIn(tenant, image.cid)] : [];
  await store.change(tenant, { by: "image", put: plan.put, set: plan.set, derived });
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

/** The content that the last image did not bring. */
function contentOf(image: Image, base: Manifest | undefined): Block[] {
  const held = new Set(base?.content);
  return image.manifest.content.filter((cid) => !held.has(cid)).map((cid) => ({ cid, bytes: image.content(cid) }));
}

/** The results that the last image did not claim, with their bundles. Damaged ones are compiled when needed. */
function claimsOf(image: Image, base: Manifest | undefined): Block[] {
  const held = new Map(Object.entries(base?.derived ?? {}));
  return Object.entries(image.manifest.derived).flatMap(([key, cid]) => {
    if (held.get(key) === cid) return [];
    const result = soundContent(image, cid);
    const compiled = result && compiledHere(result.bytes);
    if (!compiled) return [];
    if (compiled.bundle === null) return [result];
    const bundle = soundContent(image, compiled.bundle);
    return bundle ? [result, bundle] : [];
  });
}

function soundContent(image: Image, cid: Cid): Block | undefined {
  try {
    return { cid, bytes: image.content(cid) };
  } catch (error) {
    if (error instanceof BerthError && error.code === "image_invalid") return undefined;
    throw error;
  }
}
