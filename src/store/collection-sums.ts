import type { CollectedAmounts, CollectionResult } from "./store.ts";

/** The parts of a collection that are the same for all stores. */

/** Sums up what a collection removes, or retains for now. */
export class CollectionSums {
  lapsed = 0;
  readonly #freed = amounts();
  readonly #waiting = amounts();

  add(category: "freed" | "waiting", kind: keyof CollectedAmounts, bytes: number): void {
    const amount = (category === "freed" ? this.#freed : this.#waiting)[kind];
    amount.count += 1;
    amount.bytes += bytes;
  }

  /** `reusableBytes`: the free space within the files of the store; 0 if only the database knows it. */
  collected(reusableBytes: number): CollectionResult {
    return { freed: this.#freed, waiting: this.#waiting, lapsed: this.lapsed, reusableBytes };
  }
}

function amounts() {
  return { packages: { count: 0, bytes: 0 }, content: { count: 0, bytes: 0 }, compiled: { count: 0, bytes: 0 } };
}

/** Splits a list into batches. Each ends with `itemsMax` items, or as soon as it has `bytesMax` bytes. */
export function* toBatches<Item>(items: readonly Item[], itemsMax: number, bytesMax = Infinity): Generator<Item[]> {
  let [batch, bytes]: [Item[], number] = [[], 0];
  for (const item of items) {
    batch.push(item);
    bytes += (item as { readonly bytes?: number }).bytes ?? 0;
    if (batch.length < itemsMax && bytes < bytesMax) continue;
    yield batch;
    [batch, bytes] = [[], 0];
  }
  if (batch.length > 0) yield batch;
}
