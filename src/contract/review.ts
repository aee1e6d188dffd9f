import type { Problem } from "../lib/problem.ts";
import type { ContractChange } from "./change.ts";

/** The effect of saving a draft, for its author and for the page that asks before saving. */
export interface Review {
  /** Errors prevent the save; warnings do not. Each has a file, line and column, or a JSON pointer with its line. */
  readonly problems: readonly Problem[];
  /** The servers that would change, sorted by name. */
  readonly servers: readonly ServerEffect[];
  /** True if a change of some server is breaking. */
  readonly breaking: boolean;
  /** The npm packages that would be added, removed or have other versions, sorted by name; absent if there are none. */
  readonly packages?: readonly PackageChange[];
}

/** One package of a tenant's set, before and after. */
export interface PackageChange {
  readonly name: string;
  /** Its versions, sorted; empty if it is not in the set. */
  readonly before: readonly string[];
  readonly after: readonly string[];
  /** The versions whose bytes differ before and after. */
  readonly changedBytes?: readonly string[];
  /** The new versions whose bytes come from no registry. */
  readonly supplied?: readonly string[];
  /** True if the set's dependencies name it: definitions may import it. */
  readonly direct: boolean;
}

export interface ServerEffect {
  readonly server: string;
  /** `refused`: it serves now but no longer would. `starting`: what it offers is not known yet. */
  readonly outcome: "added" | "removed" | "changed" | "refused" | "starting";
  /** CIDs of the releases. */
  readonly before?: string;
  readonly after?: string;
  readonly changes: readonly ContractChange[];
  /** The first tools of a server that is `added`. */
  readonly tools?: readonly ToolSummary[];
  /** Tools whose code changes while their contract stays the same. */
  readonly newBehaviour: readonly string[];
  /** The size of its bundle in bytes, if packages change. */
  readonly bundleBytes?: { readonly before?: number; readonly after?: number };
}

/** A short description of a tool. */
export interface ToolSummary {
  readonly name: string;
  /** As TypeScript; shortened if it is long. */
  readonly signature: string;
  /** The beginning of its description. */
  readonly description: string;
}

export interface Saved {
  /** The CID of the current value; null after a deletion. */
  readonly cid: string | null;
  readonly review: Review;
}
