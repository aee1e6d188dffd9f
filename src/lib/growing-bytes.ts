/**
 * Bytes that arrive in pieces, held as one: a single byte takes hundreds of bytes as a buffer of its own, so a sender
 * of single bytes would take more memory than any limit of bytes says.
 */
export class GrowingBytes {
  #room = Buffer.alloc(0);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  add(piece: Uint8Array): void {
    const needed = this.#length + piece.length;
    if (needed > this.#room.length) {
      const room = Buffer.allocUnsafeSlow(Math.max(needed, 2 * this.#room.length));
      this.#room.copy(room, 0, 0, this.#length);
      this.#room = room;
    }
    this.#room.set(piece, this.#length);
    this.#length = needed;
  }

  /** Returns all bytes and releases them. */
  take(): Buffer<ArrayBuffer> {
    const all = this.#room.subarray(0, this.#length);
    this.#room = Buffer.alloc(0);
    this.#length = 0;
    return all;
  }
}
