import type { Readable } from "node:stream";
import { clock } from "../lib/clock.ts";

/**
 * The end of an upstream program's stderr. A program that writes without end is read at a limited rate: its pipe fills,
 * and it waits.
 */
export class StderrTail {
  readonly #keptBytes: number;
  #kept: Buffer = Buffer.alloc(0);
  #read = 0;

  constructor(stream: Readable, keptBytes: number) {
    this.#keptBytes = keptBytes;
    stream.on("data", (chunk: Buffer) => {
      this.#keep(chunk);
      this.#read += chunk.length;
      if (this.#read < BYTES_AT_ONCE) return;
      this.#read = 0;
      stream.pause();
      clock.after(REST_MS, () => void stream.resume()).unref();
    });
  }

  toString(): string {
    // A character whose beginning was cut off is left out.
    let start = 0;
    while (start < 3 && (this.#kept[start]! & 0xc0) === 0x80) start++;
    return this.#kept.toString("utf8", start);
  }

  #keep(chunk: Buffer): void {
    const all = chunk.length >= this.#keptBytes ? chunk : Buffer.concat([this.#kept, chunk]);
    // A copy, because a part of a chunk keeps all of it.
    this.#kept = all.length > this.#keptBytes ? Buffer.from(all.subarray(all.length - this.#keptBytes)) : all;
  }
}

/** Some megabytes a second, which cost the serving thread a few milliseconds. */
const BYTES_AT_ONCE = 1024 * 1024;
const REST_MS = 250;
