/**
 * State shared by the processes that serve from one store, its nodes: which are alive, their messages to each other,
 * and who holds which lease. All of it expires, and none of it is in backups. Implemented by the store; times are by
 * the store's clock.
 */
export interface NodeStore {
  /** Sends a heartbeat that is valid for `ms`. */
  beat(node: Node, ms: number): Promise<HeartbeatResult>;

  /** Removes the node, its messages and its leases. */
  leave(node: string): Promise<void>;

  /**
   * Puts messages into the mailboxes of living nodes, and returns for each the number of mailboxes: 0 if the addressee
   * is gone. Rejects with `too_many_requests` if a mailbox is full.
   */
  post(from: string, messages: readonly NodeMessage[]): Promise<readonly number[]>;

  /** Takes the messages in a node's mailbox, or some of them, in the order they were sent: each message once. */
  take(node: string): Promise<readonly string[]>;

  /** Calls `listener` soon after a message was sent to the node. Returns a function that removes the listener. */
  onLetter(node: string, listener: () => void): () => void;

  /** Takes a lease for the lifetime of the node, unless another living node holds it. Returns the resulting lease. */
  lease(name: string, node: string): Promise<Lease>;

  /** The current lease; undefined if no node holds it. */
  leased(name: string): Promise<Lease | undefined>;

  /** Does nothing if another node holds it. */
  endLease(name: string, node: string): Promise<void>;
}

export interface Node {
  readonly id: string;
  /** JSON: what other nodes need to know about it. */
  readonly facts: string;
}

export interface HeartbeatResult {
  /** All living nodes, this one included, sorted by id. */
  readonly living: readonly Node[];
  /** True if this node had been considered dead: other nodes may have taken its leases. */
  readonly wasGone: boolean;
}

export interface NodeMessage {
  /** A node; undefined for all nodes but the sender. */
  readonly to: string | undefined;
  readonly text: string;
}

export interface Lease {
  readonly node: string;
  /** Greater for each later holder: actions with an older one are refused. */
  readonly fence: number;
}
