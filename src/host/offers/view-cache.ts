/** An item that is kept while there is room for it. */
export interface Kept {
  /** Used since the last search for room. */
  used: boolean;
}

interface Held extends Kept {
  readonly bytes: number;
  readonly forget: () => void;
}

/** Used items that one search passes over; after that it drops them, too, so that nobody waits long. */
const CHANCES_MAX = 1_000;

/**
 * Counts items that can be made again at any time, and first drops those not used lately. It holds no reference to
 * them, so that counting does not keep an item beyond its catalog.
 */
export class ViewRoom {
  readonly #bytesMax: number;
  readonly #held = new Set<Held>();
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Counts the item at `key`, which is deleted there to make room. */
  keep(where: Map<string, { readonly kept: Kept }>, key: string, bytes: number): Kept {
    const there = new WeakRef(where);
    const held: Held = {
      bytes,
      used: true,
      forget() {
        const entries = there.deref();
        if (entries?.get(key)?.kept === held) entries.delete(key);
      },
    };
    this.#held.add(held);
    this.#bytes += bytes;
    // The item just made is not dropped.
    this.#makeRoom(held);
    return held;
  }

  #makeRoom(but: Held): void {
    let chances = CHANCES_MAX;
    for (const held of this.#held) {
      if (this.#bytes <= this.#bytesMax) return;
      if (held === but) continue;
      this.#held.delete(held);
      if (held.used && chances-- > 0) {
        held.used = false;
        this.#held.add(held);
        continue;
      }
      this.#bytes -= held.bytes;
      held.forget();
    }
  }
}

/** Shared by all tenants: anyone who gives rights can give any number of different ones. */
const VIEWS_BYTES_MAX = 128 * 1024 * 1024;

/** For narrowed views of catalogs, and for the list pages written for any catalog. */
export const viewRoom = new ViewRoom(VIEWS_BYTES_MAX);
