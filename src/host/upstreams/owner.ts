import type { Cluster } from "../../cluster/cluster.ts";
import type { Lease } from "../../lib/node-store.ts";
import { settlesWithin, LATE_MS } from "../../lib/within.ts";
import { UpstreamError } from "../../upstream/messages/upstream-error.ts";

/** The other nodes, as far as a lease needs them. */
export type LeaseNodes = Pick<Cluster, "id" | "others" | "isSure" | "makeSure" | "lease" | "leased" | "endLease">;

/**
 * The node that runs an upstream which runs once for all: whoever needs it first takes its lease, and keeps it until it
 * lets the upstream go, or ends. A node that may have been taken for gone does nothing by its lease until it has looked.
 */
export class Owner {
  readonly #name: string;
  readonly #nodes: LeaseNodes;
  readonly #onLost: () => void;
  /** Settles when what ran by the lease on this node before is gone. */
  #after: Promise<unknown> | undefined;
  /** The fence of the lease while this node has it. */
  #fence: number | undefined;
  #elsewhere: Lease | undefined;
  #finding: Promise<Lease | undefined> | undefined;
  #hasEnded = false;

  /** `onLost` is called when another node may have the lease that this one had. */
  constructor(name: string, nodes: LeaseNodes, onLost: () => void, after: Promise<unknown> | undefined) {
    this.#name = name;
    this.#nodes = nodes;
    this.#onLost = onLost;
    this.#after = after;
  }

  /** True while this node may run it, without asking anybody. */
  get isHere(): boolean {
    return this.#fence !== undefined && this.#nodes.isSure;
  }

  /** The node that ran it when it was last looked for, if that is another one. */
  get elsewhere(): string | undefined {
    return this.#elsewhere?.node;
  }

  /** True if this node has the lease with that fence, once it is sure of it. */
  async has(fence: number): Promise<boolean> {
    return (await this.#nodes.makeSure()) && this.#fence === fence;
  }

  /** Resolves with the other node that runs it; undefined if it is this one, which from now on does. */
  async find(): Promise<Lease | undefined> {
    if (this.isHere) return undefined;
    return this.#elsewhere ?? (this.#finding ??= this.#find().finally(() => (this.#finding = undefined)));
  }

  /** Resolves with the node that runs it, and undefined if there is none. */
  async look(): Promise<string | undefined> {
    return this.isHere ? this.#nodes.id : (this.#elsewhere ?? (await this.#nodes.leased(this.#name)))?.node;
  }

  /** That node does not run it any more, or is gone: the next one is looked for. */
  forget(lease: Lease): void {
    if (this.#elsewhere === lease) this.#elsewhere = undefined;
  }

  /** Looks if the lease is still this node's, which counts as gone, or did. */
  async verify(): Promise<void> {
    if (this.#fence === undefined) return;
    const nodes = this.#nodes;
    let lease: Lease | undefined;
    try {
      lease = await nodes.leased(this.#name);
    } catch {
      // Alone it goes on, as in `#find`.
      if (nodes.others.size === 0) return;
    }
    if (lease?.node !== nodes.id || lease.fence !== this.#fence) this.#lose();
  }

  /**
   * Gives the lease back once `gone`, which ends the upstream here, has settled. Calls of other nodes are refused at once,
   * and those of this one wait.
   */
  async release(gone: () => Promise<unknown>): Promise<void> {
    await this.#finding?.catch(() => {});
    const hadLease = this.#fence !== undefined;
    this.#fence = undefined;
    this.#after = this.#giveBack(gone, hadLease);
    await this.#after;
  }

  /** The same, for good. */
  end(gone: () => Promise<unknown>): Promise<void> {
    this.#hasEnded = true;
    return this.release(gone);
  }

  async #find(): Promise<Lease | undefined> {
    await this.#after?.catch(() => {});
    if (this.#hasEnded) throw new UpstreamError("upstream_ended", "its entry has changed");
    const nodes = this.#nodes;
    let lease: Lease;
    try {
      if (!(await nodes.makeSure())) throw unsure();
      const leasing = nodes.lease(this.#name);
      // A stalled store gives it to no other node.
      if (this.isHere && nodes.others.size === 0 && !(await settlesWithin(LATE_MS, leasing))) return undefined;
      lease = await leasing;
    } catch (error) {
      // A node that knew no other one when it last knew anything goes on alone: no other can take a lease either.
      if (nodes.others.size === 0) return undefined;
      throw error;
    }
    if (this.#fence !== undefined && this.#fence !== lease.fence) this.#lose();
    if (lease.node !== nodes.id) return (this.#elsewhere = lease);
    this.#fence = lease.fence;
    return undefined;
  }

  async #giveBack(gone: () => Promise<unknown>, hadLease: boolean): Promise<void> {
    try {
      await gone();
    } finally {
      if (hadLease) await this.#nodes.endLease(this.#name);
    }
  }

  #lose(): void {
    if (this.#fence === undefined) return;
    this.#fence = undefined;
    this.#onLost();
  }
}

function unsure(): UpstreamError {
  const detail = "this node cannot reach the store, and another one may run the upstream by now";
  return new UpstreamError("upstream_busy", detail, { data: { retriable: true } });
}
