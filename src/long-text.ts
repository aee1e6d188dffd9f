import type { JsonDigest, JsonObject } from "./json.ts";

/** JSON text, whole or in pieces. */
export type Text = string | LongText;

/**
 * A text that is too long to be copied together, decoded or encoded by who serves: its pieces, those of bytes in UTF-8.
 * As a string it takes a while.
 */
export class LongText {
  readonly pieces: readonly (string | Uint8Array)[];

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
    return this.pieces.map((piece) => (typeof piece === "string" ? piece : decoder.decode(piece))).join("");
  }

  /** The text of an object with more members: theirs with the brace that closes it, in the place of its own. */
  closedBy(members: string): LongText {
    const last = this.pieces.at(-1)!;
    const open = typeof last === "string" ? last.slice(0, -1) : last.subarray(0, -1);
    return new LongText(...this.pieces.slice(0, -1), open, `,${members}`);
  }
}

const decoder = new TextDecoder();

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
