import { decodeRecord, type Cid } from "../../lib/cid.ts";
import { ifSound } from "../../store/if-sound.ts";
import type { Store } from "../../store/store.ts";

/** A structure that a tenant has stored; undefined for one that is missing or damaged. */
export async function storedStructure(store: Pick<Store, "content">, tenant: string, cid: Cid): Promise<unknown> {
  const bytes = await ifSound(store.content(tenant, cid));
  return bytes && decodeRecord(bytes);
}
