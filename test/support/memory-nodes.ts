import { Cluster } from "../../src/cluster/cluster.ts";
import { NodeRequests } from "../../src/cluster/node-requests.ts";
import { clock } from "../../src/lib/clock.ts";
import { createLog } from "../../src/lib/log.ts";
import type { Lease, Node, NodeStore } from "../../src/lib/node-store.ts";
import type { Records } from "../../src/lib/records.ts";
import { defaultLimits, type Limits } from "../../src/limits/limits.ts";

/** Nodes as a store keeps them, for the duration of the test; a letter arrives with the next turn. */
export function memoryNodes(): NodeStore {
  const living = new Map<string, Node & { readonly until: number }>();
  const boxes = new Map<string, string[]>();
  const listeners = new Map<string, () => void>();
  const leases = new Map<string, Lease>();
  const leave = (node: string): void => {
    living.delete(node);
    boxes.delete(node);
    for (const [name, lease] of leases) if (lease.node === node) leases.delete(name);
  };
  return {
    async beat(node, ms) {
      for (const [id, { until }] of living) if (until <= clock.now()) leave(id);
      const wasGone = !living.has(node.id);
      living.set(node.id, { ...node, until: clock.now() + ms });
      return { living: [...living.values()].sort((one, other) => (one.id < other.id ? -1 : 1)), wasGone };
    },
    async leave(node) {
      leave(node);
    },
    async post(from, letters) {
      return letters.map(({ to, text }) => {
        const nodes = [...living.keys()].filter((id) => (to === undefined ? id !== from : id === to));
        for (const id of nodes) {
          boxes.set(id, [...(boxes.get(id) ?? []), text]);
          setImmediate(() => listeners.get(id)?.());
        }
        return nodes.length;
      });
    },
    async take(node) {
      const texts = boxes.get(node) ?? [];
      boxes.delete(node);
      return texts;
    },
    onLetter(node, listener) {
      listeners.set(node, listener);
      return () => listeners.delete(node);
    },
    async lease(name, node) {
      const lease = leases.get(name) ?? { node, fence: clock.now() };
      leases.set(name, lease);
      return lease;
    },
    async leased(name) {
      return leases.get(name);
    },
    async endLease(name, node) {
      if (leases.get(name)?.node === node) leases.delete(name);
    },
  };
}

/** A node that has not joined yet, and what it asks others to do; by default it is and stays alone. */
export function memoryNode(
  records: Records,
  nodes: NodeStore = memoryNodes(),
  limits: Pick<Limits, "nodeLeaseMs"> = defaultLimits,
): { readonly cluster: Cluster; readonly errands: NodeRequests } {
  const log = createLog("silent");
  const cluster = new Cluster({ nodes, limits, log });
  return { cluster, errands: new NodeRequests({ cluster, records, log }) };
}
