import type { SkillContract } from "../../contract/contract.ts";
import type { ServerEntry } from "../../entry/entry.ts";
import type { Problem } from "../../lib/problem.ts";
import type { Store } from "../../store/store.ts";
import type { Contract } from "../offers/catalog.ts";
import type { HostedUpstream } from "../upstreams/hosted.ts";
import type { Hosting } from "../upstreams/hosting.ts";
import type { Held, Remembered } from "../upstreams/remembered.ts";

/** Port for the feature "drift", which withholds changes of upstreams until they are approved. */
export interface ApprovalPort {
  /** Resolves with the approved part of what an upstream offers now. */
  readApproved(
    tenant: string,
    server: string,
    hosted: HostedUpstream,
    entry: ServerEntry,
    dependencies: ApprovalDependencies,
  ): Promise<ApprovedContract>;
  /** The stored record of an upstream, which need not be running. */
  recall(
    tenant: string,
    server: string,
    uri: string,
    entry: ServerEntry,
    dependencies: Omit<ApprovalDependencies, "isTrial">,
  ): Promise<Remembered | undefined>;
  /** Approves exactly the contract that was reviewed. Rejects if the upstream's contract has changed since. */
  approve(
    store: Store,
    tenant: string,
    server: string,
    hosted: HostedUpstream,
    approval: { readonly contract: string; readonly by: string },
  ): Promise<void>;
  /** Adopts the record that another process wrote; true if that changes what is served. */
  follow(store: Store, tenant: string, server: string, hosted: HostedUpstream): Promise<boolean>;
}

export interface ApprovalDependencies {
  readonly store: Store;
  readonly writable: boolean;
  /** Undefined if this process starts no upstreams. */
  readonly upstreams?: Hosting;
  /** A trial stores nothing. */
  readonly isTrial: boolean;
  readonly storedBytesOf?: (tenant: string) => number;
}

/** The part of an upstream that may be served. */
export interface ApprovedContract {
  readonly own: Contract;
  readonly held: Held;
  /** All approved skills, including withheld and removed ones: their URIs must not lead to other contents. */
  readonly skills: readonly SkillContract[];
  readonly problems: readonly Problem[];
}
