import { GrowingBytes } from "../../lib/growing-bytes.ts";
import type { HeldMessage, MessageRoom } from "../../lib/message-room.ts";
import { UpstreamError } from "../messages/upstream-error.ts";

/** The minimum cost of a piece, in bytes. */
const PIECE_BYTES = 512;

export function costOf({ length }: Uint8Array): number {
  return Math.max(length, PIECE_BYTES);
}

/** Without the byte order mark, which some servers send. */
export function withoutMark(text: string): string {
  return text.startsWith("\uFEFF") ? text.slice(1) : text;
}

/** The bytes of a message so far. They are counted from the second piece on: most messages have only one. */
export class HeldBytes {
  readonly #bytesMax: number;
  readonly #room: MessageRoom | undefined;
  readonly #onNoRoom: (error: Error) => void;
  #bytes = new GrowingBytes();
  #counted: HeldMessage | undefined;
  #noRoom: Error | undefined;

  /** `onNoRoom` ends the source. */
  constructor({ messageBytes, room }: HeldOptions, onNoRoom: (error: Error) => void) {
    this.#bytesMax = messageBytes;
    this.#room = room;
    this.#onNoRoom = onNoRoom;
  }

  get length(): number {
    return this.#bytes.length;
  }

  /** Throws if the message is too long, or if there is no room for it. */
  add(piece: Uint8Array): void {
    const { length } = this.#bytes;
    if (length + piece.length > this.#bytesMax) {
      throw new UpstreamError("upstream_protocol", `it sent a message of more than ${this.#bytesMax} bytes`);
    }
    if (this.#room && length > 0) {
      if (!this.#counted) (this.#counted = this.#room.begin((why) => this.#giveUp(why))).add(length);
      this.#counted?.add(piece.length);
    }
    if (this.#noRoom) throw this.#noRoom;
    this.#bytes.add(piece);
  }

  take(): Buffer<ArrayBuffer> {
    if (this.#noRoom) throw this.#noRoom;
    this.#release();
    return this.#bytes.take();
  }

  /** Drops it; the rest is not wanted. */
  end(): void {
    this.#release();
    this.#bytes = new GrowingBytes();
  }

  #giveUp(why: string): void {
    this.#noRoom = new UpstreamError("upstream_busy", `it ${why}`);
    this.end();
    this.#onNoRoom(this.#noRoom);
  }

  #release(): void {
    this.#counted?.end();
    this.#counted = undefined;
  }
}

interface HeldOptions {
  readonly messageBytes: number;
  /** Memory for incomplete messages; without it they are not counted. */
  readonly room?: MessageRoom | undefined;
}
