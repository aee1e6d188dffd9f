import type { Contract } from "../../contract/contract.ts";
import { sanitizeContract } from "../../contract/sanitize.ts";
import { cidOf, cidOfContract, contractBlock, readAs } from "../../host/offers/contract-cids.ts";
import type { Arrived, Remembered } from "../../host/upstreams/remembered.ts";
import { decodeJsonYielding, jsonBlock, rawBlock, type Cid } from "../../lib/cid.ts";
import { mapYielding } from "../../lib/event-loop.ts";
import { isObject } from "../../lib/json.ts";
import type { Store } from "../../store/store.ts";
import type { TakenItem } from "./auto-approve.ts";
import { NOTHING_ARRIVED } from "./drift.ts";

/** The CID of the record of `server`, of whatever URI; null where there is none. */
export async function rememberedCid(store: Store, tenant: string, server: string): Promise<Cid | null> {
  return (await store.name(tenant, "upstream", server))?.cid ?? null;
}

/** Reads the record of `server` if it was started from this very URI. Contracts of `last` are not read again. */
export async function readRemembered(
  store: Store,
  tenant: string,
  server: string,
  uri: string,
  last?: Remembered,
): Promise<Remembered | undefined> {
  const record = await store.name(tenant, "upstream", server);
  const kept = record && (await structure(store, tenant, record.cid));
  if (!isObject(kept) || kept["definition"] !== rawBlock(uri).cid) return undefined;
  const known = new Map(last && contractsIn(last).map((contract) => [cidOf(contract), contract]));
  const read = async (cid: unknown): Promise<Contract | undefined> => {
    const contract = known.get(cid as Cid) ?? (await readContract(store, tenant, cid));
    if (contract) known.set(cid as Cid, contract);
    return contract;
  };
  const approved = await read(kept["approved"]);
  const observed = await read(kept["observed"]);
  const reviewed = kept["reviewed"] === undefined ? undefined : await read(kept["reviewed"]);
  const locked = typeof kept["locked"] === "string" ? kept["locked"] : null;
  return approved && observed && { approved, arrived: arrivedIn(kept), reviewed, observed, locked };
}

function contractsIn({ approved, observed, reviewed }: Remembered): Contract[] {
  return [...new Set([approved, observed, ...(reviewed ? [reviewed] : [])])];
}

function arrivedIn({ arrived }: Record<string, unknown>): Arrived {
  if (!isObject(arrived)) return NOTHING_ARRIVED;
  const { tools, prompts } = arrived;
  return isCount(tools) && isCount(prompts) ? { tools, prompts } : NOTHING_ARRIVED;
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/**
 * `by` tells who decided, as everywhere in the history of names; `approved`, that a person did. Rejects with `name_conflict`
 * when the record is not the `expected` one: another process has judged the upstream meanwhile.
 */
export async function writeRemembered(
  store: Store,
  tenant: string,
  server: string,
  { uri, remembered, expected, by, approved: isApproval = false, autoApproved = [], storedBytesMax }: RememberedPut,
): Promise<void> {
  const definition = rawBlock(uri);
  const { approved, arrived, reviewed, observed, locked } = remembered;
  const cids = { approved: await cidOfContract(approved), observed: await cidOfContract(observed) };
  const hasArrived = arrived.tools > 0 || arrived.prompts > 0;
  const kept = jsonBlock({
    definition: definition.cid,
    ...cids,
    locked,
    ...(hasArrived && { arrived: { ...arrived } }),
    ...(reviewed && { reviewed: await cidOfContract(reviewed) }),
  });
  if (expected === kept.cid) return;
  const contracts = await mapYielding(contractsIn(remembered), contractBlock);
  // Each of these takes milliseconds to write, and has no effect until it is named.
  const long = contracts.length > 1 ? contracts.filter(({ bytes }) => bytes.length > LONG_BYTES) : [];
  const room = storedBytesMax === undefined ? {} : { storedBytesMax };
  for (const block of long) await store.change(tenant, { by, put: [block], ...room });
  await store.change(tenant, {
    ...room,
    by,
    ...((isApproval || autoApproved.length > 0) && { subject: { kind: "contract", name: server, autoApproved } }),
    put: [definition, ...contracts.filter((block) => !long.includes(block)), kept],
    set: [{ kind: "upstream", name: server, cid: kept.cid, expected }],
  });
}

const LONG_BYTES = 1024 * 1024;

interface RememberedPut {
  readonly uri: string;
  readonly remembered: Remembered;
  /** The CID of the record that it replaces; null where there is none. */
  readonly expected: Cid | null;
  readonly by: string;
  readonly approved?: boolean;
  /** The items that the entry's policy takes over. */
  readonly autoApproved?: readonly TakenItem[];
  readonly storedBytesMax?: number;
}

export async function readContract(store: Store, tenant: string, cid: unknown): Promise<Contract | undefined> {
  const stored = typeof cid === "string" ? await structure(store, tenant, cid) : undefined;
  const contract = await sanitizeContract(stored);
  // A mended contract is not the one that is stored under that CID.
  if (contract && contract === stored) readAs(cid as Cid, contract);
  return contract;
}

async function structure(store: Store, tenant: string, cid: Cid): Promise<unknown> {
  const bytes = await store.content(tenant, cid);
  return bytes && decodeJsonYielding(bytes);
}
