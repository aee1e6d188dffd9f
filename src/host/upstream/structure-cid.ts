import { jsonBlock, type Cid } from "../../cid.ts";
import type { Contract } from "../../contract/contract.ts";
import { turnTaker } from "../../turns.ts";

/**
 * The CIDs of contracts of servers of others, and of all in them, each made once: they tell whether a server offers what
 * it did, which is asked at each start and each look, and to write out a hundred tools takes milliseconds.
 */
const known = new WeakMap<object, Cid>();

/** Of a structure that never changes. */
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

/** Makes those of a contract and of its tools and prompts, and lets calls of others have their turns meanwhile. */
export async function makeCids(contract: Contract): Promise<void> {
  const turn = turnTaker();
  for (const each of [...contract.tools, ...contract.prompts, contract]) {
    await turn();
    cidOf(each);
  }
}
