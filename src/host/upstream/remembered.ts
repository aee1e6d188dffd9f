import { decodeJson, jsonBlock, rawBlock, type Cid } from "../../cid.ts";
import type { ContractChange } from "../../contract/change.ts";
import type { Contract } from "../../contract/contract.ts";
import { isObject } from "../../json.ts";
import type { Store } from "../../store/store.ts";
import { cidOf, readAs } from "./structure-cid.ts";

/** What is kept of a server of others from one of its lives to the next. */
export interface Remembered {
  readonly approved: Contract;
  /** As it was last seen: what is served before it is started again. */
  readonly observed: Contract;
  /** CID of the lock's contract that the approved one began with; another lock begins anew. */
  readonly locked: Cid | null;
}

/** What is remembered, and what of it waits for a person. */
export interface RememberedChanges extends Remembered {
  readonly changes: readonly ContractChange[];
}

/** What is remembered of `server` as far as it was started from this very URI. */
export async function readRemembered(
  store: Store,
  tenant: string,
  server: string,
  uri: string,
): Promise<Remembered | undefined> {
  const record = await store.name(tenant, "upstream", server);
  const kept = record && (await structure(store, tenant, record.cid));
  if (!isObject(kept) || kept["definition"] !== rawBlock(uri).cid) return undefined;
  const approved = await readContract(store, tenant, kept["approved"]);
  const isSame = kept["observed"] === kept["approved"];
  const observed = isSame ? approved : await readContract(store, tenant, kept["observed"]);
  const locked = typeof kept["locked"] === "string" ? kept["locked"] : null;
  return approved && observed && { approved, observed, locked };
}

/** `by` says who decided, as everywhere in the history of names; `approved`, that a person did. */
export async function writeRemembered(
  store: Store,
  tenant: string,
  server: string,
  { uri, remembered, by, approved: isApproval = false }: RememberedPut,
): Promise<void> {
  const definition = rawBlock(uri);
  const { approved, observed, locked } = remembered;
  const kept = jsonBlock({ definition: definition.cid, approved: cidOf(approved), observed: cidOf(observed), locked });
  const current = await store.name(tenant, "upstream", server);
  if (current?.cid === kept.cid) return;
  await store.change(tenant, {
    by,
    ...(isApproval && { subject: { kind: "contract", name: server } }),
    put: [definition, ...Array.from(new Set([approved, observed]), jsonBlock), kept],
    set: [{ kind: "upstream", name: server, cid: kept.cid }],
  });
}

interface RememberedPut {
  readonly uri: string;
  readonly remembered: Remembered;
  readonly by: string;
  readonly approved?: boolean;
}

export async function readContract(store: Store, tenant: string, cid: unknown): Promise<Contract | undefined> {
  const contract = typeof cid === "string" ? await structure(store, tenant, cid) : undefined;
  if (!isObject(contract) || !Array.isArray(contract["tools"])) return undefined;
  readAs(cid as Cid, contract);
  return contract as unknown as Contract;
}

async function structure(store: Store, tenant: string, cid: Cid): Promise<unknown> {
  const bytes = await store.content(tenant, cid);
  return bytes && decodeJson(bytes);
}
