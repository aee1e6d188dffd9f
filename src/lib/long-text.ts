import { isAscii, isUtf8, transcode } from "node:buffer";
import { yieldInOrder } from "./event-loop.ts";
import type { JsonDigest, JsonObject } from "./json.ts";

/** JSON, whole or in pieces. */
export type Text = string | LongText;

/**
 * A text that is too long for the serving thread to join, decode or encode without yielding, in pieces; byte pieces are
 * UTF-8. Converting it to a string takes a while, unless it was decoded before.
 */
export class LongText {
  readonly pieces: readonly (string | Uint8Array)[];
  #decoded: string | undefined;

  constructor(...pieces: readonly (string | Uint8Array)[]) {
    this.pieces = pieces;
  }

  get bytes(): number {
    return this.pieces.reduce(
      (sum, piece) => sum + (typeof piece === "string" ? Buffer.byteLength(piece) : piece.length),
      0,
    );
  }

  toString(): string {
    return (
      this.#decoded ?? this.pieces.map((piece) => (typeof piece === "string" ? piece : decoder.decode(piece))).join("")
    );
  }

  /** Decodes it for a caller that needs a string, yielding to other calls. */
  async decode(): Promise<void> {
    let text = "";
    for (const piece of this.pieces) {
      if (typeof piece === "string") text += piece;
      else
        for (const part of splitUtf8(piece)) {
          text += decodeUtf8(part);
          await yieldInOrder();
        }
    }
    this.#decoded = text;
  }

  /** The JSON of an object with more members: `members`, with a closing brace, replaces its closing brace. */
  closedBy(members: string): LongText {
    const last = this.pieces.at(-1)!;
    const open = typeof last === "string" ? last.slice(0, -1) : last.subarray(0, -1);
    return new LongText(...this.pieces.slice(0, -1), open, `,${members}`);
  }
}

const decoder = new TextDecoder();

/** Splits UTF-8 between characters, into pieces that take about a millisecond to decode. */
export function* splitUtf8(bytes: Uint8Array): Generator<Buffer, void> {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let from = 0, to; from < buffer.length; from = to) {
    to = Math.min(from + DECODE_STEP_BYTES, buffer.length);
    const min = to - CHARACTER_BYTES_MAX;
    while (to < buffer.length && to > min && isContinuation(buffer[to]!)) to -= 1;
    yield buffer.subarray(from, to);
  }
}

/**
 * Like `toString`, for bytes that may be long: Node decodes non-ASCII several times faster via UTF-16, which works only
 * for well-formed UTF-8.
 */
export function decodeUtf8(bytes: Buffer): string {
  if (bytes.length < LONG_BYTES) return bytes.toString();
  if (isAscii(bytes)) return bytes.toString("latin1");
  return isUtf8(bytes) ? transcode(bytes, "utf8", "utf16le").toString("utf16le") : bytes.toString();
}

/** The length from which this is faster. */
const LONG_BYTES = 16 * 1024;

/** Non-ASCII text takes several times as long as ASCII. */
export const DECODE_STEP_BYTES = 256 * 1024;
const CHARACTER_BYTES_MAX = 4;

function isContinuation(byte: number): boolean {
  return (byte & 0xc0) === 0x80;
}

/** An object, its JSON, and its digest, computed in another process. */
export abstract class LongJson {
  /** Everything but its `_meta`. */
  readonly text: LongText;
  /** JSON. */
  readonly meta: string | undefined;
  readonly digest: JsonDigest;

  constructor(text: LongText, digest: JsonDigest, meta?: string) {
    this.text = text;
    this.digest = digest;
    this.meta = meta;
  }

  get _meta(): JsonObject | undefined {
    return this.meta === undefined ? undefined : (JSON.parse(this.meta) as JsonObject);
  }

  /** Parses all of it, which takes a while. */
  read(): JsonObject {
    const object = JSON.parse(String(this.text)) as JsonObject;
    const { _meta } = this;
    return _meta ? { ...object, _meta } : object;
  }

  toJSON(): JsonObject {
    return this.read();
  }
}
