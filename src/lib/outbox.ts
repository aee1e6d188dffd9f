import type { Duplex } from "node:stream";
import { atEndOfTurn } from "./end-of-turn.ts";
import type { BudgetedMessage, MessageBudget } from "./message-budget.ts";

/** The size of a piece passed to the pipe. Within a piece, it is unknown how much the process has read. */
const PIECE_BYTES = 64 * 1024;

/**
 * Messages to a process over its pipe, in order: those of one event-loop turn are written together. They are passed to
 * the pipe in pieces, the next one when the last was taken, so that it is known which messages the process may have
 * read.
 */
export class Outbox {
  readonly #owner: OutboxOwner;
  readonly #budget: MessageBudget | undefined;
  /** Counts the waiting bytes, except those added since the last `flush`. */
  #counted: BudgetedMessage | undefined;
  #countedBytes = 0;
  #pipe: Duplex | undefined;
  /** Short messages, which are written together. */
  #text = "";
  /** Pieces before `#text`, because they are long or the pipe is full. */
  readonly #pieces: Piece[] = [];
  #piecesLength = 0;
  /** The number of the last added message. */
  #added = 0;
  #written = 0;
  #drained = 0;

  /** Without `budget`, waiting bytes are not counted. */
  constructor(owner: OutboxOwner, budget?: MessageBudget) {
    this.#owner = owner;
    this.#budget = budget;
  }

  /** Messages that were added before wait for this. */
  open(pipe: Duplex): void {
    this.#pipe = pipe;
    this.flush();
  }

  /** The bytes that the process has not read yet. */
  get bytes(): number {
    return (this.#pipe?.writableLength ?? 0) + this.#piecesLength + this.#text.length;
  }

  /** Adds a message, and bytes that complete it, to be written at the end of the turn. Returns its number. */
  add(message: string, bytes?: Uint8Array): number {
    if (this.#text === "" && this.#pieces.length === 0) atEndOfTurn(this.flush);
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

  /** True once the whole message has been written to the pipe; before that the process cannot have read it. */
  mayHaveRead(message: number): boolean {
    return message <= this.#written;
  }

  /** True once the process's pipe has taken all of a message. */
  hasTaken(message: number): boolean {
    return message <= this.#drained;
  }

  readonly flush = (): void => {
    const pipe = this.#pipe;
    if (!pipe) return;
    this.#write(pipe);
    this.#count();
  };

  /** The process reads nothing more: drops waiting messages. */
  close(): void {
    this.#pipe = undefined;
    this.#text = "";
    this.#pieces.length = 0;
    this.#piecesLength = 0;
    this.#count();
  }

  #write(pipe: Duplex): void {
    // A full pipe gets the next piece when it has written the last.
    while (pipe.writable && pipe.writableLength === 0) {
      if (this.#pieces.length === 0) this.#closeText();
      const piece = this.#pieces.shift();
      if (!piece) return;
      this.#piecesLength -= piece.data.length;
      this.#written = piece.upTo;
      pipe.write(piece.data, this.#onWritten);
    }
  }

  readonly #onWritten = (): void => {
    if (this.#pipe?.writableLength === 0) this.#drained = this.#written;
    // A process that reads some of it counts as waiting only since then.
    this.#counted?.end();
    this.#countedBytes = 0;
    this.flush();
    this.#owner.onTaken();
  };

  #count(): void {
    const { bytes } = this;
    if (bytes === this.#countedBytes) return;
    const more = bytes - this.#countedBytes;
    this.#countedBytes = bytes;
    this.#counted ??= this.#budget?.begin(this.#onOverBudget);
    this.#counted?.add(more);
  }

  readonly #onOverBudget = (why: string): void => {
    this.#countedBytes = 0;
    this.#owner.onNoRoom?.(why);
  };

  /** Ends the current text: what follows is a piece of its own. */
  #closeText(upTo = this.#added): void {
    const text = this.#text;
    if (text === "") return;
    this.#text = "";
    if (text.length > PIECE_BYTES) return this.#queueLong(Buffer.from(text), upTo);
    this.#pieces.push({ data: text, upTo });
    this.#piecesLength += text.length;
  }

  /** The last of the pieces completes the message `upTo`. */
  #queueLong(bytes: Uint8Array, upTo: number): void {
    this.#piecesLength += bytes.length;
    for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
      const end = at + PIECE_BYTES;
      this.#pieces.push({ data: bytes.subarray(at, end), upTo: end < bytes.length ? this.#added - 1 : upTo });
    }
  }
}

interface OutboxOwner {
  /** The process has read more. */
  onTaken(): void;
  /** Waiting messages must be dropped; `why` completes "the server …". */
  onNoRoom?(why: string): void;
}

/** A piece to write, and the last message that it completes. */
interface Piece {
  readonly data: string | Uint8Array;
  readonly upTo: number;
}
