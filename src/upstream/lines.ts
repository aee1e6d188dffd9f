import type { HeldMessage, MessageRoom } from "../lib/message-room.ts";

/** Cuts bytes into lines. Holds at most one line, of bounded length; the work is linear in the input. */
export class LineReader {
  readonly #bytesMax: number;
  readonly #on: LinesListener;
  readonly #room: MessageRoom | undefined;
  #counted: HeldMessage | undefined;
  #held: Buffer = Buffer.alloc(0);
  #heldBytes = 0;

  constructor(bytesMax: number, on: LinesListener, room?: MessageRoom) {
    this.#bytesMax = bytesMax;
    this.#on = on;
    this.#room = room;
  }

  push(chunk: Buffer): void {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      const piece = chunk.subarray(start, end);
      start = end + 1;
      if (this.#heldBytes + piece.length > this.#bytesMax) return this.#giveUp();
      const line = this.#heldBytes === 0 ? piece : this.#take(piece);
      if (line.length > 0) this.#on.line(line);
    }
    const rest = chunk.subarray(start);
    if (this.#heldBytes + rest.length > this.#bytesMax) return this.#giveUp();
    if (rest.length > 0) this.#hold(rest);
  }

  /** Linear even for single bytes: the buffer doubles when it grows. */
  #hold(piece: Buffer): void {
    const needed = this.#heldBytes + piece.length;
    if (needed > this.#held.length) {
      const room = Buffer.allocUnsafeSlow(Math.min(this.#bytesMax, Math.max(2 * needed, FIRST_ROOM_BYTES)));
      this.#held.copy(room, 0, 0, this.#heldBytes);
      this.#held = room;
    }
    piece.copy(this.#held, this.#heldBytes);
    this.#heldBytes = needed;
    this.#counted ??= this.#room?.begin((why) => this.#on.noRoom(why));
    this.#counted?.add(piece.length);
  }

  #take(piece: Buffer): Buffer {
    this.#hold(piece);
    const line = this.#held.subarray(0, this.#heldBytes);
    this.#giveBack();
    return line;
  }

  /** Forgets an incomplete line. */
  end(): void {
    this.#giveBack();
  }

  #giveBack(): void {
    this.#counted?.end();
    this.#counted = undefined;
    this.#held = Buffer.alloc(0);
    this.#heldBytes = 0;
  }

  #giveUp(): void {
    this.#giveBack();
    this.#on.tooLong();
  }
}

interface LinesListener {
  line(line: Buffer): void;
  tooLong(): void;
  /** The incomplete line is dropped. */
  noRoom(why: string): void;
}

const NEWLINE = 10;
const FIRST_ROOM_BYTES = 1024;
