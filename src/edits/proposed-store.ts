import type { Block, Cid } from "../lib/cid.ts";
import type { Change, DerivedEntry, NameKind, NameMove, NameRecord, Store } from "../store/store.ts";

/**
 * A store with proposed changes: reads see the changes made here, which reach the real store only when the owner passes
 * `proposal()` to its `change`. For one tenant.
 */
export interface ProposedStore extends Store {
  /** All changes so far, in the order they were made. */
  proposal(): Required<Pick<Change, "put" | "set" | "derived">>;
}

export function proposeTo(store: ReviewedStore): ProposedStore {
  const blocks = new Map<Cid, Block>();
  const moves: NameMove[] = [];
  const latest = new Map<string, NameMove>();
  const derived: DerivedEntry[] = [];
  const used = new Set<string>();
  const moveKey = (kind: NameKind, name: string): string => JSON.stringify([kind, name]);
  const changedAt = Date.now();
  const withMoves = (stored: readonly NameRecord[], isRequested: (move: NameMove) => boolean): NameRecord[] => {
    const records = new Map(stored.map((record) => [moveKey(record.kind, record.name), record]));
    for (const [key, move] of latest) {
      const { kind, name, cid } = move;
      if (!isRequested(move)) continue;
      if (cid === null) records.delete(key);
      else records.set(key, { kind, name, cid, changedAt });
    }
    return [...records.values()].sort(byName);
  };

  return {
    async content(tenant, cid) {
      return blocks.get(cid)?.bytes ?? (await store.content(tenant, cid));
    },

    async contents(tenant, cids) {
      const proposedBlocks = cids.flatMap((cid) => blocks.get(cid) ?? []);
      const stored = cids.filter((cid) => !blocks.has(cid));
      const contents = new Map(await store.contents(tenant, stored));
      for (const { cid, bytes } of proposedBlocks) contents.set(cid, bytes);
      return contents;
    },

    async name(tenant, kind, name) {
      const move = latest.get(moveKey(kind, name));
      if (!move) return store.name(tenant, kind, name);
      return move.cid === null ? undefined : { kind, name, cid: move.cid, changedAt };
    },

    async names(tenant, kind) {
      return withMoves(await store.names(tenant, kind), (move) => move.kind === kind);
    },

    async meanings(tenant, requested) {
      const stored = await store.meanings(tenant, requested);
      const isRequested = ({ kind, name }: NameMove): boolean =>
        requested.kinds.includes(kind) || requested.names.some((each) => each.kind === kind && each.name === name);
      return { ...stored, names: withMoves(stored.names, isRequested) };
    },

    latestChange: () => store.latestChange(),

    /** Later changes by other writers are left to the next read of the store itself. */
    changesAfter: async (_tenant, kinds, since) => ({
      latest: since,
      changed: [...latest.values()].filter(({ kind }) => kinds.includes(kind)),
    }),

    async change(_tenant: string, { put = [], set = [], derived: results = [] }: Change) {
      for (const block of put) blocks.set(block.cid, block);
      derived.push(...results);
      for (const move of set) {
        moves.push(move);
        latest.set(moveKey(move.kind, move.name), move);
      }
      return [];
    },

    values: { ...store.values, set: refuseValue, delete: refuseValue, clear: refuseValue },
    tenants: store.tenants,
    tokens: store.tokens,
    audit: store.audit,
    retainedCalls: store.retainedCalls,
    nodes: store.nodes,
    now: () => store.now(),
    proposal: () => ({ put: [...blocks.values()], set: moves, derived: [...derived, ...store.reviewed(used)] }),
    onChange: (listener) => store.onChange(listener),
    onReplaced: (listener) => store.onReplaced(listener),
    unheardMs: () => store.unheardMs(),
    history: (tenant, kind, name, max) => store.history(tenant, kind, name, max),
    had: (tenant, kind, name, cid) => store.had(tenant, kind, name, cid),
    derived(key) {
      used.add(key);
      return store.derived(key);
    },
    putDerived(tenant, entries) {
      for (const { key } of entries) used.add(key);
      return store.putDerived(tenant, entries);
    },
    /** The host that serves the results holds them. */
    async holdDerived(_tenant, keys) {
      for (const key of keys) used.add(key);
      return true;
    },
    record: (tenant, kind, key) => store.record(tenant, kind, key),
    putRecord: (tenant, kind, key, put) => store.putRecord(tenant, kind, key, put),
    putRecords: (tenant, kind, puts) => store.putRecords(tenant, kind, puts),
    check: () => store.check(),
    size: () => store.size(),
    use: (tenant) => store.use(tenant),
    collect: (order) => store.collect(order),
    async close() {},
  };
}

async function refuseValue(): Promise<never> {
  throw new Error("a server under review cannot change state");
}

function byName(a: NameRecord, b: NameRecord): number {
  if (a.name === b.name) return 0;
  return a.name < b.name ? -1 : 1;
}

/** A store that does not store what was compiled for a review: that stays in memory for a while. */
export interface ReviewedStore extends Store {
  /** The results of these keys that are in memory, and may not be in the store. */
  reviewed(keys: Iterable<string>): DerivedEntry[];
}

/**
 * Saves compiling again when a save follows a review. Beyond `bytesMax` the least recently used results are dropped,
 * except the latest; they are compiled again when needed.
 */
export function reviewedStore(store: Store, bytesMax: number): ReviewedStore {
  const entries = new Map<string, DerivedEntry>();
  let bytes = 0;

  const remove = (key: string): void => {
    bytes -= entries.get(key)?.block.bytes.length ?? 0;
    entries.delete(key);
  };
  const add = (entry: DerivedEntry): void => {
    remove(entry.key);
    entries.set(entry.key, entry);
    bytes += entry.block.bytes.length;
  };

  return {
    ...store,
    async derived(key) {
      const entry = entries.get(key);
      if (!entry) return store.derived(key);
      add(entry);
      return entry.block.bytes;
    },
    async putDerived(_tenant, put) {
      for (const entry of put) add(entry);
      const last = new Set(put.map(({ key }) => key));
      for (const key of entries.keys()) {
        if (bytes <= bytesMax || last.has(key)) break;
        remove(key);
      }
    },
    reviewed: (keys) => [...keys].flatMap((key) => entries.get(key) ?? []),
  };
}
