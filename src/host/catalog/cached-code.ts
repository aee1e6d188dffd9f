import { BoundedMap } from "../../lib/bounded-map.ts";
import type { Cid } from "../../lib/cid.ts";
import { fixed } from "../../limits/fixed.ts";

/** The code of definitions that is kept in memory. */
const bounds = fixed({ keptCodeBytes: 32 * 1024 * 1024 });

/**
 * The code that processes were started with last, so that the next process of a server starts without the store, which
 * may be far away, or out of reach for a while.
 */
export class KeptCode {
  /** The least recently used first. */
  readonly #kept = new BoundedMap<string, Uint8Array>(bounds.keptCodeBytes, ({ length }) => length);

  async of(tenant: string, bundle: Cid, read: () => Promise<Uint8Array>): Promise<Uint8Array> {
    const key = `${tenant} ${bundle}`;
    const code = this.#kept.get(key) ?? (await read());
    // Setting one that is too long would drop all others.
    if (code.length <= bounds.keptCodeBytes) this.#kept.set(key, code);
    return code;
  }
}
