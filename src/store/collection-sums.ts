import type { CollectedAmounts, CollectionResult } from "./store.ts";

/** The parts of a collection that do not depend on the kind of store. */

/** Sums up what a collection removes, or keeps for now. */
export class CollectionSums {
  lapsed = 0;
  readonly #freed = amounts();
  readonly #waiting = amounts();

  add(what: "freed" | "waiting", kind: keyof CollectedAmounts, bytes: number): void {
    const amount = (what === "freed" ? this.#freed : this.#waiting)[kind];
    amount.count += 1;
    amount.bytes += bytes;
  }

  /** `reusableBytes`: the free bytes within the files of the store; 0 where only the database knows them. */
  collected(reusableBytes: number): CollectionResult {
    return { freed: this.#freed, waiting: this.#waiting, lapsed: this.lapsed, reusableBytes };
  }
}

function amounts() {
  return { packages: { count: 0, bytes: 0 }, content: { count: 0, bytes: 0 }, compiled: { count: 0, bytes: 0 } };
}

/** Splits a list into parts, each of which ends with `itemsMax` items or once it has `bytesMax` bytes. */
export function* partsOf<Item>(items: readonly Item[], itemsMax: number, bytesMax = Infinity): Generator<Item[]> {
  let [part, bytes]: [Item[], number] = [[], 0];
  for (const item of items) {
    part.push(item);
    bytes += (item as { readonly bytes?: number }).bytes ?? 0;
    if (part.length < itemsMax && bytes < bytesMax) continue;
    yield part;
    [part, bytes] = [[], 0];
  }
  if (part.length > 0) yield part;
}
