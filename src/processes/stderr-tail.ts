import type { Readable } from "node:stream";
import { clock } from "../lib/clock.ts";

/**
 * The tail of an upstream program's stderr. Reads at a limited rate, so that the pipe of a program that writes without
 * end fills up and the program blocks.
 */
export class StderrTail {
  readonly #maxBytes: number;
  #tail: Buffer = Buffer.alloc(0);
  #read = 0;

  constructor(stream: Readable, maxBytes: number) {
    this.#maxBytes = maxBytes;
    stream.on("data", (chunk: Buffer) => {
      this.#append(chunk);
      this.#read += chunk.length;
      if (this.#read < BYTES_AT_ONCE) return;
      this.#read = 0;
      stream.pause();
      clock.after(REST_MS, () => void stream.resume()).unref();
    });
  }

  toString(): string {
    // A character whose beginning was cut off is omitted.
    let start = 0;
    while (start < 3 && (this.#tail[start]! & 0xc0) === 0x80) start++;
    return this.#tail.toString("utf8", start);
  }

  #append(chunk: Buffer): void {
    const all = chunk.length >= this.#maxBytes ? chunk : Buffer.concat([this.#tail, chunk]);
    // Copies, because a part of a chunk retains all of it.
    this.#tail = all.length > this.#maxBytes ? Buffer.from(all.subarray(all.length - this.#maxBytes)) : all;
  }
}

/** Some megabytes per second, which cost the serving thread a few milliseconds. */
const BYTES_AT_ONCE = 1024 * 1024;
const REST_MS = 250;
