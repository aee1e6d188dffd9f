/**
 * Bytes that arrive in pieces, stored as one buffer: a single byte takes hundreds of bytes as a buffer of its own, so a
 * sender of single bytes would exceed every memory limit.
 */
export class GrowingBytes {
  #buffer = Buffer.alloc(0);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  add(piece: Uint8Array): void {
    const length = this.#length + piece.length;
    if (length > this.#buffer.length) {
      const grown = Buffer.allocUnsafeSlow(Math.max(length, 2 * this.#buffer.length));
      this.#buffer.copy(grown, 0, 0, this.#length);
      this.#buffer = grown;
    }
    this.#buffer.set(piece, this.#length);
    this.#length = length;
  }

  /** Returns all bytes and releases them. */
  take(): Buffer<ArrayBuffer> {
    const all = this.#buffer.subarray(0, this.#length);
    this.#buffer = Buffer.alloc(0);
    this.#length = 0;
    return all;
  }
}
