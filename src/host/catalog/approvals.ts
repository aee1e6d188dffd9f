import type { SkillContract } from "../../contract/contract.ts";
import type { ServerEntry } from "../../entry/entry.ts";
import type { Problem } from "../../lib/problem.ts";
import type { Store } from "../../store/store.ts";
import type { Contract } from "../offers/catalog.ts";
import type { HostedUpstream } from "../upstreams/hosted.ts";
import type { Hosting } from "../upstreams/hosting.ts";
import type { Held, Remembered } from "../upstreams/remembered.ts";

/** Withholds changes of upstreams until they are approved: the part of the feature "drift" that the host uses. */
export interface ApprovalPort {
  /** Resolves with what is approved of an upstream and still offered. */
  approvedNow(
    tenant: string,
    server: string,
    hosted: HostedUpstream,
    entry: ServerEntry,
    dependencies: ApprovalDependencies,
  ): Promise<Own>;
  /** The record of an upstream, which need not run. */
  recall(
    tenant: string,
    server: string,
    uri: string,
    entry: ServerEntry,
    dependencies: Omit<ApprovalDependencies, "isTrial">,
  ): Promise<Remembered | undefined>;
  /** Approves exactly the contract that a person was shown. Rejects when the upstream offers another by now. */
  approve(
    store: Store,
    tenant: string,
    server: string,
    hosted: HostedUpstream,
    approval: { readonly contract: string; readonly by: string },
  ): Promise<void>;
  /** Adopts what another process has recorded of an upstream; true if that changes what is served. */
  follow(store: Store, tenant: string, server: string, hosted: HostedUpstream): Promise<boolean>;
}

export interface ApprovalDependencies {
  readonly store: Store;
  readonly writable: boolean;
  /** Undefined where no upstreams are started. */
  readonly upstreams?: Hosting;
  /** For a trial: nothing is remembered. */
  readonly isTrial: boolean;
  readonly storedBytesOf?: (tenant: string) => number;
}

/** The part of an upstream that may be served. */
export interface Own {
  readonly own: Contract;
  readonly held: Held;
  /** All that are approved, those too that are held back or gone: nobody reads anything else under their URIs. */
  readonly skills: readonly SkillContract[];
  readonly problems: readonly Problem[];
}
