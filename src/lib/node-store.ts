/**
 * The common knowledge of the processes that serve from one store, its nodes: who lives, what they tell each other, and
 * who holds what. Nothing of it outlives its time, or goes into a backup. The store implements it; times are by its clock.
 */
export interface NodeStore {
  /** Gives a sign of life that lasts for `ms`. */
  beat(node: Node, ms: number): Promise<Beat>;

  /** The node is gone from now on, and so are its letters and leases. */
  leave(node: string): Promise<void>;

  /**
   * Puts letters into the boxes of living nodes, and returns for each the number of boxes: 0 where the addressee is gone.
   * Rejects with `too_many_requests` where a box has no room.
   */
  post(from: string, letters: readonly Letter[]): Promise<readonly number[]>;

  /** Takes what is in a node's box, or a part of it, in the order in which it was posted: each letter once. */
  take(node: string): Promise<readonly string[]>;

  /** Calls `listener` soon after a letter for the node was posted. Returns the function that ends it. */
  onLetter(node: string, listener: () => void): () => void;

  /** Takes a lease, which lasts as long as the node, unless another living node holds it. Returns who holds it then. */
  lease(name: string, node: string): Promise<Lease>;

  /** The lease as it stands; undefined where nobody holds it. */
  leased(name: string): Promise<Lease | undefined>;

  /** Does nothing where another node holds it. */
  endLease(name: string, node: string): Promise<void>;
}

export interface Node {
  readonly id: string;
  /** JSON: what the others have to know of it. */
  readonly facts: string;
}

export interface Beat {
  /** All living nodes, this one included, sorted by id. */
  readonly living: readonly Node[];
  /** True when this node was not among them just before: others may have taken what it held. */
  readonly wasGone: boolean;
}

export interface Letter {
  /** A node; undefined for all but the sender. */
  readonly to: string | undefined;
  readonly text: string;
}

export interface Lease {
  readonly node: string;
  /** Greater for each later holder: whoever acts by an older one is refused. */
  readonly fence: number;
}
