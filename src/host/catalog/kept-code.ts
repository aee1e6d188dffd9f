import type { Cid } from "../../lib/cid.ts";
import type { Limits } from "../../limits/limits.ts";

/**
 * The code that processes were started with last, so that the next process of a server starts without the store, which
 * may be far away, or out of reach for a while.
 */
export class KeptCode {
  readonly #bytesMax: number;
  /** The least recently used first. */
  readonly #kept = new Map<string, Uint8Array>();
  #bytes = 0;

  constructor({ keptCodeBytes }: Pick<Limits, "keptCodeBytes">) {
    this.#bytesMax = keptCodeBytes;
  }

  async of(tenant: string, bundle: Cid, read: () => Promise<Uint8Array>): Promise<Uint8Array> {
    const key = `${tenant} ${bundle}`;
    const code = this.#kept.get(key) ?? (await read());
    this.#drop(key);
    if (code.length > this.#bytesMax) return code;
    this.#kept.set(key, code);
    this.#bytes += code.length;
    for (const [oldest] of this.#kept) {
      if (this.#bytes <= this.#bytesMax) break;
      this.#drop(oldest);
    }
    return code;
  }

  #drop(key: string): void {
    this.#bytes -= this.#kept.get(key)?.length ?? 0;
    this.#kept.delete(key);
  }
}
