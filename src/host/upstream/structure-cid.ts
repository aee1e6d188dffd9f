import { addressOfJson, jsonBlock, jsonBlockInTurns, type Block, type Cid } from "../../lib/cid.ts";
import type { Contract } from "../../contract/contract.ts";
import { valuesIn } from "../../lib/json.ts";

/**
 * The CIDs of contracts of servers of others, and of all in them, each made once: they tell whether a server offers what
 * it did, which is asked at each start and each look, and to write out a hundred tools takes milliseconds.
 */
const known = new WeakMap<object, Cid>();
/** Contracts whose tools and prompts are known, too. */
const whole = new WeakSet<Contract>();
const sizes = new WeakMap<object, ItemSize>();

/** A tool or prompt as it is written: its bytes, and its members and items. */
export interface ItemSize {
  readonly bytes: number;
  readonly values: number;
}

/** Of a structure that never changes; whoever serves has made that of a contract before. */
export function cidOf(structure: object): Cid {
  let cid = known.get(structure);
  if (cid === undefined) {
    ({ cid } = jsonBlock(structure));
    known.set(structure, cid);
  }
  return cid;
}

/** Tells the CID of what was read by it. */
export function readAs(cid: Cid, structure: object): void {
  known.set(structure, cid);
}

/** Of a contract, which may be long: calls of others have their turns meanwhile. */
export async function cidOfContract(contract: Contract): Promise<Cid> {
  return known.get(contract) ?? (await contractBlock(contract)).cid;
}

/** Makes those of a contract and of its tools and prompts, in the same way. */
export async function makeCids(contract: Contract): Promise<void> {
  if (!whole.has(contract)) await contractBlock(contract);
}

/** The size of a tool or prompt of a contract whose CIDs were made. */
export function sizeOf(item: object): ItemSize {
  return sizes.get(item) ?? { bytes: 0, values: 0 };
}

/** The block of a contract, which makes its CIDs known. */
export async function contractBlock(contract: Contract): Promise<Block> {
  const block = await jsonBlockInTurns(contract, (list, item, bytes) => {
    if ((list !== "tools" && list !== "prompts") || sizes.has(item as object)) return;
    known.set(item as object, addressOfJson(bytes));
    sizes.set(item as object, { bytes: bytes.length, values: valuesIn(item, Infinity) });
  });
  known.set(contract, block.cid);
  whole.add(contract);
  return block;
}
