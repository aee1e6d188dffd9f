import { GrowingBytes } from "../../lib/growing-bytes.ts";
import type { BudgetedMessage, MessageBudget } from "../../lib/message-budget.ts";
import { UpstreamError } from "../messages/upstream-error.ts";

const PIECE_BYTES = 512;

export function pieceCost({ length }: Uint8Array): number {
  return Math.max(length, PIECE_BYTES);
}

/** Some servers send a byte order mark. */
export function withoutByteOrderMark(text: string): string {
  return text.startsWith("\uFEFF") ? text.slice(1) : text;
}

/** The bytes of a message received so far. They are counted from the second piece on: most messages have only one. */
export class MessageBuffer {
  readonly #bytesMax: number;
  readonly #budget: MessageBudget | undefined;
  readonly #onOverLimit: (error: Error) => void;
  #bytes = new GrowingBytes();
  #reserved: BudgetedMessage | undefined;
  #overLimit: Error | undefined;

  /** `onOverLimit` ends the source. */
  constructor({ messageBytes, budget }: BufferOptions, onOverLimit: (error: Error) => void) {
    this.#bytesMax = messageBytes;
    this.#budget = budget;
    this.#onOverLimit = onOverLimit;
  }

  get length(): number {
    return this.#bytes.length;
  }

  /** Throws if the message is too long, or exceeds the budget. */
  add(piece: Uint8Array): void {
    const { length } = this.#bytes;
    if (length + piece.length > this.#bytesMax) {
      throw new UpstreamError("upstream_protocol", `it sent a message of more than ${this.#bytesMax} bytes`);
    }
    if (this.#budget && length > 0) {
      if (!this.#reserved) (this.#reserved = this.#budget.begin((why) => this.#giveUp(why))).add(length);
      this.#reserved?.add(piece.length);
    }
    if (this.#overLimit) throw this.#overLimit;
    this.#bytes.add(piece);
  }

  take(): Buffer<ArrayBuffer> {
    if (this.#overLimit) throw this.#overLimit;
    this.#release();
    return this.#bytes.take();
  }

  end(): void {
    this.#release();
    this.#bytes = new GrowingBytes();
  }

  #giveUp(why: string): void {
    this.#overLimit = new UpstreamError("upstream_busy", `it ${why}`);
    this.end();
    this.#onOverLimit(this.#overLimit);
  }

  #release(): void {
    this.#reserved?.end();
    this.#reserved = undefined;
  }
}

interface BufferOptions {
  readonly messageBytes: number;
  /** The memory budget for incomplete messages; without it they are not counted. */
  readonly budget?: MessageBudget | undefined;
}
