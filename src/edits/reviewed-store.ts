import type { DerivedEntry, Store } from "../store/store.ts";

/** A store that keeps nothing of what was compiled for a review: that stays in memory for a while. */
export interface ReviewedStore extends Store {
  /** The results of these keys that are in memory, and thus perhaps not in the store. */
  reviewed(keys: Iterable<string>): DerivedEntry[];
}

/**
 * Spares the save that follows a review from compiling again. Beyond `bytesMax` the least recently used results go,
 * except those that came last; they are made again when needed.
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
