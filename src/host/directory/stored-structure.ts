import { detectLanguage } from "../../image/definition.ts";
import { decodeRecord, isStructure, type Cid } from "../../lib/cid.ts";
import { isObject } from "../../lib/json.ts";
import type { Store } from "../../store/store.ts";
import { unlessDamaged } from "../../store/unless-damaged.ts";

/** A structure that a tenant has stored; undefined for one that is missing or damaged. */
export async function storedStructure(store: Pick<Store, "content">, tenant: string, cid: Cid): Promise<unknown> {
  const bytes = await unlessDamaged(store.content(tenant, cid));
  return bytes && decodeRecord(bytes);
}

/**
 * The name of a definition's main file. A definition of one file is named after its server, and so is one that is missing
 * or damaged.
 */
export async function mainFileOf(
  store: Pick<Store, "content">,
  tenant: string,
  server: string,
  cid: Cid,
): Promise<string> {
  const bytes = await unlessDamaged(store.content(tenant, cid));
  if (!bytes) return server;
  if (!isStructure(cid))
    return `${server}.${detectLanguage(Buffer.from(bytes.subarray(0, 5)).toString()) === "shell" ? "sh" : "ts"}`;
  const tree = decodeRecord(bytes);
  return isObject(tree) && typeof tree["entry"] === "string" ? tree["entry"] : server;
}
