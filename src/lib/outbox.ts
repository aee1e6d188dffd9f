import type { Duplex } from "node:stream";
import type { HeldMessage, MessageRoom } from "./message-room.ts";
import { atEndOfTurn } from "./turn.ts";

/** The size of a piece that is handed to the pipe: only the process can tell how much of a piece it has taken. */
const PIECE_BYTES = 64 * 1024;

/**
 * Messages on their way to a process through its pipe, in order: those of one turn of the event loop leave in one write.
 * They are handed over in pieces, the next when the last was taken, so that it is known which messages the process may
 * have read.
 */
export class Outbox {
  readonly #owner: OutboxOwner;
  readonly #room: MessageRoom | undefined;
  /** Counts the waiting bytes, without those added since the last `flush`. */
  #held: HeldMessage | undefined;
  #heldBytes = 0;
  #pipe: Duplex | undefined;
  /** Short messages, which leave together. */
  #text = "";
  /** Pieces before `#text`, because they are long or the pipe is full. */
  readonly #ahead: Piece[] = [];
  #aheadLength = 0;
  /** The number of the last added message. */
  #added = 0;
  #handedOver = 0;
  #taken = 0;

  /** Without `room`, waiting bytes are not counted. */
  constructor(owner: OutboxOwner, room?: MessageRoom) {
    this.#owner = owner;
    this.#room = room;
  }

  /** Messages that were added before wait for this. */
  open(pipe: Duplex): void {
    this.#pipe = pipe;
    this.flush();
  }

  /** The bytes that the process has not taken yet. */
  get bytes(): number {
    return (this.#pipe?.writableLength ?? 0) + this.#aheadLength + this.#text.length;
  }

  /** Adds a message, and bytes that complete it; it leaves at the end of the turn. Returns its number. */
  add(message: string, bytes?: Uint8Array): number {
    if (this.#text === "" && this.#ahead.length === 0) atEndOfTurn(this.flush);
    if (this.#text.length + message.length > PIECE_BYTES) this.#closeText();
    const number = ++this.#added;
    if (bytes) {
      this.#text += message;
      this.#closeText(number - 1);
      this.#queueLong(bytes, number);
    } else if (message.length > PIECE_BYTES) this.#queueLong(Buffer.from(message), number);
    else this.#text += message;
    return number;
  }

  /** True once the whole message has been handed to the pipe: the process cannot know of it earlier. */
  mayHaveRead(message: number): boolean {
    return message <= this.#handedOver;
  }

  /** True once the process's pipe has all of a message. */
  hasTaken(message: number): boolean {
    return message <= this.#taken;
  }

  readonly flush = (): void => {
    const pipe = this.#pipe;
    if (!pipe) return;
    this.#handOver(pipe);
    this.#count();
  };

  /** The process reads nothing more: waiting messages are dropped. */
  close(): void {
    this.#pipe = undefined;
    this.#text = "";
    this.#ahead.length = 0;
    this.#aheadLength = 0;
    this.#count();
  }

  #handOver(pipe: Duplex): void {
    // A full pipe gets the next piece when it has written the last.
    while (pipe.writable && pipe.writableLength === 0) {
      if (this.#ahead.length === 0) this.#closeText();
      const piece = this.#ahead.shift();
      if (!piece) return;
      this.#aheadLength -= piece.data.length;
      this.#handedOver = piece.upTo;
      pipe.write(piece.data, this.#onWritten);
    }
  }

  readonly #onWritten = (): void => {
    if (this.#pipe?.writableLength === 0) this.#taken = this.#handedOver;
    // A process that takes some has been waiting only since then.
    this.#held?.end();
    this.#heldBytes = 0;
    this.flush();
    this.#owner.onTaken();
  };

  #count(): void {
    const { bytes } = this;
    if (bytes === this.#heldBytes) return;
    const more = bytes - this.#heldBytes;
    this.#heldBytes = bytes;
    this.#held ??= this.#room?.begin(this.#onNoRoom);
    this.#held?.add(more);
  }

  readonly #onNoRoom = (why: string): void => {
    this.#heldBytes = 0;
    this.#owner.onNoRoom?.(why);
  };

  /** Ends the current text: what comes after it is a piece of its own. */
  #closeText(upTo = this.#added): void {
    const text = this.#text;
    if (text === "") return;
    this.#text = "";
    if (text.length > PIECE_BYTES) return this.#queueLong(Buffer.from(text), upTo);
    this.#ahead.push({ data: text, upTo });
    this.#aheadLength += text.length;
  }

  /** The last of the pieces completes the message `upTo`. */
  #queueLong(bytes: Uint8Array, upTo: number): void {
    this.#aheadLength += bytes.length;
    for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
      const end = at + PIECE_BYTES;
      this.#ahead.push({ data: bytes.subarray(at, end), upTo: end < bytes.length ? this.#added - 1 : upTo });
    }
  }
}

interface OutboxOwner {
  /** The process has taken more. */
  onTaken(): void;
  /** Waiting messages must be dropped; `why` completes "the server …". */
  onNoRoom?(why: string): void;
}

/** A piece to write, and the last message that it completes. */
interface Piece {
  readonly data: string | Uint8Array;
  readonly upTo: number;
}
