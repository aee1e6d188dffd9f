/** One thing that is kept as long as there is room for it. */
export interface Kept {
  /** It was asked for since the last look for room. */
  used: boolean;
}

interface Held extends Kept {
  readonly bytes: number;
  readonly forget: () => void;
}

/** So many that were asked for are passed over at once; then nobody waits for one that nobody has asked for. */
const CHANCES_MAX = 1_000;

/**
 * Counts what can be made again at any time, and has the first be forgotten that nobody has asked for lately. It holds
 * nothing of it, so that what goes with its catalog is not kept by being counted.
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

  /** Takes in what stands at `key`, to be deleted there. */
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
    // What has just been made is not what makes room.
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

/** All tenants share it: anybody who gives rights can give as many different ones as they like. */
const VIEWS_BYTES_MAX = 128 * 1024 * 1024;

/** For views of catalogs that show a part of them, and for the pages of lists that were written of any catalog. */
export const viewRoom = new ViewRoom(VIEWS_BYTES_MAX);
