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
  readonly #kept = new Map<string, Uint8Array>();
  #bytes = 0;

  async of(tenant: string, bundle: Cid, read: () => Promise<Uint8Array>): Promise<Uint8Array> {
    const key = `${tenant} ${bundle}`;
    const code = this.#kept.get(key) ?? (await read());
    this.#drop(key);
    if (code.length > bounds.keptCodeBytes) return code;
    this.#kept.set(key, code);
    this.#bytes += code.length;
    for (const [oldest] of this.#kept) {
      if (this.#bytes <= bounds.keptCodeBytes) break;
      this.#drop(oldest);
    }
    return code;
  }

  #drop(key: string): void {
    this.#bytes -= this.#kept.get(key)?.length ?? 0;
    this.#kept.delete(key);
  }
}
