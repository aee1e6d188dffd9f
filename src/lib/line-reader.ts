import { GrowingBytes } from "./growing-bytes.ts";
import type { BudgetedMessage, MessageBudget } from "./message-budget.ts";

interface LineListener {
  /** Not called for empty lines. */
  onLine(line: Buffer): void;
  /** Called as soon as a line exceeds the limit; reading continues with the next one. */
  onTooLong(): void;
  /** Called after an incomplete line was dropped because it exceeded the budget. */
  onNoRoom?(why: string): void;
}

/** Splits bytes into lines in linear time. It stores at most one incomplete line, of at most `bytesMax` bytes. */
export class LineReader {
  readonly #bytesMax: number;
  readonly #listener: LineListener;
  readonly #budget: MessageBudget | undefined;
  readonly #partial = new GrowingBytes();
  #counted: BudgetedMessage | undefined;
  #isTooLong = false;
  #isStopped = false;

  constructor(bytesMax: number, listener: LineListener, budget?: MessageBudget) {
    this.#bytesMax = bytesMax;
    this.#listener = listener;
    this.#budget = budget;
  }

  push(chunk: Buffer): void {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0 && !this.#isStopped; end = chunk.indexOf(NEWLINE, start)) {
      this.#endLine(chunk.subarray(start, end));
      start = end + 1;
    }
    if (start < chunk.length && !this.#isStopped) this.#append(chunk.subarray(start));
  }

  /** Ends the input: bytes after the last line break are a line as well. */
  end(): void {
    this.#endLine(Buffer.alloc(0));
  }

  /** Drops the incomplete line and ignores all further bytes. */
  stop(): void {
    this.#isStopped = true;
    this.#take();
  }

  #endLine(piece: Buffer): void {
    const isWhole = this.#partial.length === 0 && !this.#isTooLong && piece.length <= this.#bytesMax;
    if (!isWhole) this.#append(piece);
    const line = isWhole ? piece : this.#take();
    this.#isTooLong = false;
    if (line.length > 0) this.#listener.onLine(line);
  }

  #append(piece: Buffer): void {
    if (this.#isTooLong) return;
    if (this.#partial.length + piece.length > this.#bytesMax) {
      this.#isTooLong = true;
      this.#take();
      return this.#listener.onTooLong();
    }
    this.#partial.add(piece);
    this.#counted ??= this.#budget?.begin((why) => this.#listener.onNoRoom?.(why));
    this.#counted?.add(piece.length);
  }

  #take(): Buffer {
    this.#counted?.end();
    this.#counted = undefined;
    return this.#partial.take();
  }
}

const NEWLINE = 10;
