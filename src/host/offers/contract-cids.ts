import type { Contract } from "../../contract/contract.ts";
import { stableForm } from "../../contract/stable-form.ts";
import { byKey, type WithheldItem } from "../../contract/withheld-items.ts";
import { jsonCid, jsonBlock, jsonBlockYielding, type Block, type Cid } from "../../lib/cid.ts";
import { createYielder } from "../../lib/event-loop.ts";
import { countValues } from "../../lib/json.ts";

/**
 * The CIDs of upstreams' contracts and of all in them, each made once. Each start and each look compares them to tell
 * if an upstream still offers the same, and writing out a hundred tools takes milliseconds.
 */
const known = new WeakMap<object, Cid>();
/** Contracts whose tools, prompts and skills have known CIDs, too. */
const whole = new WeakSet<Contract>();
const sizes = new WeakMap<object, ItemSize>();

/** The size of a serialized tool, prompt or skill: its bytes, and its members and items. */
export interface ItemSize {
  readonly bytes: number;
  readonly values: number;
}

/** The CID of a structure that never changes. Of a contract, the serving thread makes it beforehand, in turns. */
export function cidOf(structure: object): Cid {
  let cid = known.get(structure);
  if (cid === undefined) {
    ({ cid } = jsonBlock(structure));
    known.set(structure, cid);
  }
  return cid;
}

/** Records the CID that a structure was read by. */
export function readAs(cid: Cid, structure: object): void {
  known.set(structure, cid);
}

/** The CID of a contract, which may be long: calls of other callers have their turns meanwhile. */
export async function cidOfContract(contract: Contract): Promise<Cid> {
  return known.get(contract) ?? (await contractBlock(contract)).cid;
}

/** Makes the CIDs of a contract and of its tools, prompts and skills, in the same way. */
export async function makeCids(contract: Contract): Promise<void> {
  if (!whole.has(contract)) await contractBlock(contract);
}

/** True if both versions of an item exist and differ in more than the dates, times and numbers of defaults and examples. */
export function isSubstantialChange(before: WithheldItem | undefined, after: WithheldItem): boolean {
  if (!before || cidOf(before) === cidOf(after)) return false;
  return cidOf(stableForm(before)) !== cidOf(stableForm(after));
}

/** Makes the CIDs by which `isSubstantialChange` compares the tools of two contracts, in the same way. */
export async function makeFormCids(before: Contract, after: Contract): Promise<void> {
  await makeCids(before);
  await makeCids(after);
  const known = byKey("tool", before.tools);
  const takeTurns = createYielder();
  for (const tool of after.tools) {
    await takeTurns();
    isSubstantialChange(known.get(tool.name), tool);
  }
}

/** The size of a tool, prompt or skill of a contract whose CIDs were made. */
export function sizeOf(item: object): ItemSize {
  return sizes.get(item) ?? { bytes: 0, values: 0 };
}

/** Makes the block of a contract, and records its CIDs. */
export async function contractBlock(contract: Contract): Promise<Block> {
  const block = await jsonBlockYielding(contract, (list, item, bytes) => {
    if (!LISTS.has(list) || sizes.has(item as object)) return;
    known.set(item as object, jsonCid(bytes));
    sizes.set(item as object, { bytes: bytes.length, values: countValues(item, Infinity) });
  });
  known.set(contract, block.cid);
  whole.add(contract);
  return block;
}

const LISTS: ReadonlySet<string> = new Set(["tools", "prompts", "skills"]);
