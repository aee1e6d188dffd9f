import { isUtf8 } from "node:buffer";

/** Receives the lines of a byte stream, without empty ones. */
export interface LineHandlers {
  onLine(line: string): void;
  /** Called for a line that is too long or not UTF-8; reading goes on with the next one. */
  onBadLine(reason: "too long" | "not UTF-8"): void;
}

const NEWLINE = 10;

/** Cuts bytes into lines of at most `lineBytes`, and never holds more of a line than that. */
export class StdioLineReader {
  readonly #lineBytes: number;
  readonly #handlers: LineHandlers;
  #parts: Buffer[] = [];
  #length = 0;
  /** The line is already too long: the rest of it is discarded. */
  #skipping = false;

  constructor(lineBytes: number, handlers: LineHandlers) {
    this.#lineBytes = lineBytes;
    this.#handlers = handlers;
  }

  push(chunk: Buffer): void {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      this.#keep(chunk.subarray(start, end));
      this.#finish();
      start = end + 1;
    }
    if (start < chunk.length) this.#keep(chunk.subarray(start));
  }

  /** Ends the stream; the text after the last newline is a line, too. */
  end(): void {
    if (this.#length > 0 || this.#skipping) this.#finish();
  }

  #keep(bytes: Buffer): void {
    if (this.#skipping) return;
    this.#length += bytes.length;
    if (this.#length <= this.#lineBytes) {
      this.#parts.push(bytes);
      return;
    }
    this.#skipping = true;
    this.#parts = [];
  }

  #finish(): void {
    const bytes = this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts);
    const isTooLong = this.#skipping;
    this.#parts = [];
    this.#length = 0;
    this.#skipping = false;
    if (isTooLong) return this.#handlers.onBadLine("too long");
    if (!isUtf8(bytes)) return this.#handlers.onBadLine("not UTF-8");
    const line = bytes.toString();
    if (line.trim() !== "") this.#handlers.onLine(line);
  }
}
