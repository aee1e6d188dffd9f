import { GrowingBytes } from "./growing-bytes.ts";
import type { HeldMessage, MessageRoom } from "./message-room.ts";

interface LineListener {
  /** Not called for empty lines. */
  onLine(line: Buffer): void;
  /** Called as soon as a line exceeds the limit; reading continues with the next one. */
  onTooLong(): void;
  /** Called when an incomplete line was dropped because it exceeds the quota `room`. */
  onNoRoom?(why: string): void;
}

/** Splits bytes into lines. It stores at most one incomplete line, of at most `bytesMax` bytes, in linear time. */
export class LineReader {
  readonly #bytesMax: number;
  readonly #listener: LineListener;
  readonly #room: MessageRoom | undefined;
  readonly #held = new GrowingBytes();
  #counted: HeldMessage | undefined;
  #isTooLong = false;
  #isStopped = false;

  constructor(bytesMax: number, listener: LineListener, room?: MessageRoom) {
    this.#bytesMax = bytesMax;
    this.#listener = listener;
    this.#room = room;
  }

  push(chunk: Buffer): void {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0 && !this.#isStopped; end = chunk.indexOf(NEWLINE, start)) {
      this.#endLine(chunk.subarray(start, end));
      start = end + 1;
    }
    if (start < chunk.length && !this.#isStopped) this.#hold(chunk.subarray(start));
  }

  /** The input has ended: the bytes after the last line break are a line, too. */
  end(): void {
    this.#endLine(Buffer.alloc(0));
  }

  /** Drops the incomplete line, and ignores all further bytes. */
  stop(): void {
    this.#isStopped = true;
    this.#take();
  }

  #endLine(piece: Buffer): void {
    const isWhole = this.#held.length === 0 && !this.#isTooLong && piece.length <= this.#bytesMax;
    if (!isWhole) this.#hold(piece);
    const line = isWhole ? piece : this.#take();
    this.#isTooLong = false;
    if (line.length > 0) this.#listener.onLine(line);
  }

  #hold(piece: Buffer): void {
    if (this.#isTooLong) return;
    if (this.#held.length + piece.length > this.#bytesMax) {
      this.#isTooLong = true;
      this.#take();
      return this.#listener.onTooLong();
    }
    this.#held.add(piece);
    this.#counted ??= this.#room?.begin((why) => this.#listener.onNoRoom?.(why));
    this.#counted?.add(piece.length);
  }

  #take(): Buffer {
    this.#counted?.end();
    this.#counted = undefined;
    return this.#held.take();
  }
}

const NEWLINE = 10;
