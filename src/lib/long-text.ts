import { isAscii, isUtf8, transcode } from "node:buffer";
import type { JsonDigest, JsonObject } from "./json.ts";
import { turnAmongAll } from "./turns.ts";

/** JSON text, whole or in pieces. */
export type Text = string | LongText;

/**
 * A text that is too long to be copied together, decoded or encoded by who serves: its pieces, those of bytes in UTF-8.
 * As a string it takes a while, unless it was decoded before.
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

  /** Decodes it in turns with calls of others, for whoever needs it as a string. */
  async decode(): Promise<void> {
    let text = "";
    for (const piece of this.pieces) {
      if (typeof piece === "string") text += piece;
      else
        for (const part of decodable(piece)) {
          text += textOf(part);
          await turnAmongAll();
        }
    }
    this.#decoded = text;
  }

  /** The text of an object with more members: theirs with the brace that closes it, in the place of its own. */
  closedBy(members: string): LongText {
    const last = this.pieces.at(-1)!;
    const open = typeof last === "string" ? last.slice(0, -1) : last.subarray(0, -1);
    return new LongText(...this.pieces.slice(0, -1), open, `,${members}`);
  }
}

const decoder = new TextDecoder();

/** Cuts UTF-8 into what is decoded in about a millisecond, and no character in two. */
export function* decodable(bytes: Uint8Array): Generator<Buffer, void> {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let from = 0, to; from < buffer.length; from = to) {
    to = Math.min(from + DECODED_AT_ONCE_BYTES, buffer.length);
    const least = to - CHARACTER_BYTES_MAX;
    while (to < buffer.length && to > least && isContinuation(buffer[to]!)) to -= 1;
    yield buffer.subarray(from, to);
  }
}

/**
 * As `toString` has it, for what may be long: Node decodes what is no ASCII several times faster by way of UTF-16, which it
 * does only of what is well-formed.
 */
export function textOf(bytes: Buffer): string {
  if (bytes.length < LONG_BYTES) return bytes.toString();
  if (isAscii(bytes)) return bytes.toString("latin1");
  return isUtf8(bytes) ? transcode(bytes, "utf8", "utf16le").toString("utf16le") : bytes.toString();
}

/** From here on it pays. */
const LONG_BYTES = 16 * 1024;

/** Text that is no ASCII takes several times as long as ASCII. */
export const DECODED_AT_ONCE_BYTES = 256 * 1024;
const CHARACTER_BYTES_MAX = 4;

function isContinuation(byte: number): boolean {
  return (byte & 0xc0) === 0x80;
}

/** An object with members, of which something is known that was found out elsewhere, and its JSON text. */
export abstract class LongJson {
  readonly text: LongText;
  readonly digest: JsonDigest;

  constructor(text: LongText, digest: JsonDigest) {
    this.text = text;
    this.digest = digest;
  }

  /** All of it, which takes a while. */
  read(): JsonObject {
    return JSON.parse(String(this.text)) as JsonObject;
  }

  toJSON(): JsonObject {
    return this.read();
  }
}
