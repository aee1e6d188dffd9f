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
  /** The npm packages that would come, go, or have other versions, sorted by name; absent where none is concerned. */
  readonly packages?: readonly PackageChange[];
}

/** One package of a tenant's set, before and after. */
export interface PackageChange {
  readonly name: string;
  /** Its versions, sorted; none where it is not in the set. */
  readonly before: readonly string[];
  readonly after: readonly string[];
  /** The versions whose bytes differ before and after. */
  readonly changedBytes?: readonly string[];
  /** The versions after it whose bytes come from no registry. */
  readonly supplied?: readonly string[];
  /** True for one that the set's dependencies name: definitions may import it. */
  readonly direct: boolean;
}

export interface ServerEffect {
  readonly server: string;
  /** `refused`: it serves now and no longer would. `starting`: what it offers is not known yet. */
  readonly outcome: "added" | "removed" | "changed" | "refused" | "starting";
  /** CIDs of the releases. */
  readonly before?: string;
  readonly after?: string;
  readonly changes: readonly ContractChange[];
  /** The tools of a server that is `added`: the first of them. */
  readonly tools?: readonly ToldTool[];
  /** Tools whose code changes under the same contract. */
  readonly newBehaviour: readonly string[];
  /** The size of its bundle, in bytes, where packages change. */
  readonly bundleBytes?: { readonly before?: number; readonly after?: number };
}

/** A tool in a few words. */
export interface ToldTool {
  readonly name: string;
  /** As TypeScript; a long one is cut. */
  readonly signature: string;
  /** The beginning of its description. */
  readonly description: string;
}

export interface Saved {
  /** The CID of what stands now; null after a deletion. */
  readonly cid: string | null;
  readonly review: Review;
}
