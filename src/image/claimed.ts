import { matches, rawBlock, type Cid } from "../lib/cid.ts";
import { BerthError } from "../lib/errors.ts";
import type { DerivedEntry, Store } from "../store/store.ts";
import { unlessDamaged } from "../store/unless-damaged.ts";
import { readCompiled, type CompiledResult } from "./compiled.ts";
import type { Manifest } from "./image.ts";
import { parseManifest } from "./read.ts";

/**
 * A boot image claims what was compiled from its sources, and nothing proves a claim. So a claim counts only for the
 * tenant to which the image was applied, if nothing was compiled here, and as long as no other image is applied.
 * Results and bundles are content of that tenant, under no key that another tenant could request; the manifest maps
 * keys to results.
 */

/** The name under which a store records the manifest that was applied last. */
export const APPLIED = "applied";

/** Finds the compiled result that an image claims for a key. */
export type ClaimLookup = (store: Store, tenant: string, key: string) => Promise<CompiledResult | undefined>;

/** Records that the image's claims are trusted for the tenant: a name alone could also come from a tenant's file. */
export function trustRecord(tenant: string, image: Cid): DerivedEntry {
  return { key: `believed-image:${tenant}:${image}`, block: rawBlock(image), madeOf: image };
}

export async function isTrusted(store: Store, tenant: string, image: Cid): Promise<boolean> {
  const { key, block } = trustRecord(tenant, image);
  const bytes = await unlessDamaged(store.derived(key));
  return bytes !== undefined && matches(block.cid, bytes);
}

/** Looks in the image that was applied last, for what is currently served. */
export const findCurrentClaim: ClaimLookup = async (store, tenant, key) => {
  const applied = await store.name(tenant, "image", APPLIED);
  if (!applied || !(await isTrusted(store, tenant, applied.cid))) return undefined;
  const results = await readResults(store, tenant, applied.cid);
  return results && findClaim(results, store, tenant, key);
};

/** Looks in the latest image that has a claim, for releases of earlier images. */
export const findAnyClaim: ClaimLookup = async (store, tenant, key) => {
  const images = await store.history(tenant, "image", APPLIED);
  for (const image of new Set(images.map(({ cid }) => cid))) {
    if (image === null || !(await isTrusted(store, tenant, image))) continue;
    const bytes = await unlessDamaged(store.content(tenant, image));
    // Most manifests do not contain the key, and parsing a long one takes time.
    if (!bytes || !Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).includes(key)) continue;
    const result = await findClaim(parseManifest(bytes, image).derived, store, tenant, key);
    if (result) return result;
  }
  return undefined;
};

/** Cached, because every server that is loaded asks for the same image. */
let latest: { readonly image: Cid; readonly results: Manifest["derived"] } | undefined;

async function readResults(store: Store, tenant: string, image: Cid): Promise<Manifest["derived"] | undefined> {
  if (latest?.image === image) return latest.results;
  const bytes = await unlessDamaged(store.content(tenant, image));
  if (!bytes) return undefined;
  latest = { image, results: parseManifest(bytes, image).derived };
  return latest.results;
}

async function findClaim(
  results: Manifest["derived"],
  store: Store,
  tenant: string,
  key: string,
): Promise<CompiledResult | undefined> {
  if (!Object.hasOwn(results, key)) return undefined;
  const bytes = await unlessDamaged(store.content(tenant, results[key]!));
  return bytes && tryReadCompiled(bytes);
}

/** Undefined for an invalid result, or one of another version of Berth. */
export function tryReadCompiled(bytes: Uint8Array): CompiledResult | undefined {
  try {
    return readCompiled(bytes);
  } catch (error) {
    if (error instanceof BerthError && error.code === "image_invalid") return undefined;
    throw error;
  }
}
