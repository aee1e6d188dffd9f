import { BoundedMap } from "../../lib/bounded-map.ts";
import type { Cid } from "../../lib/cid.ts";
import { fixed } from "../../limits/fixed.ts";

/** Size limit of the cache. */
const bounds = fixed({ keptCodeBytes: 32 * 1024 * 1024 });

/** Caches recently used bundles, so that guest processes start fast, and even while the store is unreachable. */
export class CodeCache {
  /** Least recently used first. */
  readonly #code = new BoundedMap<string, Uint8Array>(bounds.keptCodeBytes, ({ length }) => length);

  async read(tenant: string, bundle: Cid, read: () => Promise<Uint8Array>): Promise<Uint8Array> {
    const key = `${tenant} ${bundle}`;
    const code = this.#code.get(key) ?? (await read());
    // A bundle above the limit would evict all others.
    if (code.length <= bounds.keptCodeBytes) this.#code.set(key, code);
    return code;
  }
}
