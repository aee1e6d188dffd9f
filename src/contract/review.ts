import type { Problem } from "../lib/problem.ts";
import type { ContractChange } from "./change.ts";

/** Tells what saving a draft does: to the one who saves it, and to the page that asks before. */
export interface Review {
  /** Errors refuse the save; warnings do not. Each with file, line and column, or a JSON pointer with its line. */
  readonly problems: readonly Problem[];
  /** The servers that would change, sorted by name. */
  readonly servers: readonly ServerEffect[];
  /** True when a change of some server is breaking. */
  readonly breaking: boolean;
}

export interface ServerEffect {
  readonly server: string;
  /** `refused`: it serves now and no longer would. `starting`: what it offers is not known yet. */
  readonly outcome: "added" | "removed" | "changed" | "refused" | "starting";
  /** CIDs of the releases. */
  readonly before?: string;
  readonly after?: string;
  readonly changes: readonly ContractChange[];
  /** Tools whose code changes under the same contract. */
  readonly newBehaviour: readonly string[];
}

export interface Saved {
  /** The CID of what stands now; null after a deletion. */
  readonly cid: string | null;
  readonly review: Review;
}
