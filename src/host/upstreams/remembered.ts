import type { ContractChange } from "../../contract/change.ts";
import type { Contract, PromptContract, SkillContract, ToolContract } from "../../contract/contract.ts";
import type { Cid } from "../../lib/cid.ts";

/**
 * Items that differ from what was approved, or are new where there is no room for them; neither listed nor used until a
 * person approves them.
 */
export interface Held {
  readonly tools: readonly ToolContract[];
  readonly prompts: readonly PromptContract[];
  readonly skills: readonly SkillContract[];
}

export const NOTHING_HELD: Held = { tools: [], prompts: [], skills: [] };

/**
 * How many tools and prompts at the end of the approved lists came after other approved ones went. They may be the same
 * ones under another name, so they do not count as known when the two contracts are compared. A skill under another URI is
 * another one.
 */
export interface Arrived {
  readonly tools: number;
  readonly prompts: number;
}

/** The record of an upstream that is kept from one run to the next. */
export interface Remembered {
  readonly approved: Contract;
  readonly arrived: Arrived;
  /** The approved contract before the entry's policy took anything over; undefined where it has not. */
  readonly reviewed?: Contract | undefined;
  /** The contract last seen, which is served until the upstream starts again. */
  readonly observed: Contract;
  /** CID of the locked contract that `approved` began with; another lock begins anew. */
  readonly locked: Cid | null;
}

/** The record, with the changes that wait for a person, and those that were taken over since one last approved. */
export interface RememberedChanges extends Remembered {
  readonly changes: readonly ContractChange[];
  readonly autoApproved: readonly ContractChange[];
}
