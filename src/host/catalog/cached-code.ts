import { BoundedMap } from "../../lib/bounded-map.ts";
import type { Cid } from "../../lib/cid.ts";
import { fixed } from "../../limits/fixed.ts";

/** Size limit of the cache. */
const bounds = fixed({ keptCodeBytes: 32 * 1024 * 1024 });

/** Caches recently used bundles, so that guest processes start fast, and even while the store is unreachable. */
export class KeptCode {
  /** Least recently used first. */
  readonly #kept = new BoundedMap<string, Uint8Array>(bounds.keptCodeBytes, ({ length }) => length);

  async of(tenant: string, bundle: Cid, read: () => Promise<Uint8Array>): Promise<Uint8Array> {
    const key = `${tenant} ${bundle}`;
    const code = this.#kept.get(key) ?? (await read());
    // A bundle above the limit would evict all others.
    if (code.length <= bounds.keptCodeBytes) this.#kept.set(key, code);
    return code;
  }
}
