import { isUtf8 } from "node:buffer";
import type { Readable, Writable } from "node:stream";
import { LongText, type Text } from "../../lib/long-text.ts";

/** Receives the lines of a byte stream, without empty ones. */
interface LineHandlers {
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

/** Writes lines. While the other side is behind, nothing more is read from it. */
export class LineOutput {
  readonly #output: Writable;
  readonly #input: HeldInput;
  #room: Promise<void> | undefined;
  /** True when the other side no longer reads. */
  isBroken = false;

  constructor(output: Writable, input: HeldInput) {
    this.#output = output;
    this.#input = input;
  }

  /** Resolves when the other side has caught up; undefined when it is not behind. */
  get room(): Promise<void> | undefined {
    return this.#room;
  }

  /** Returns a promise to wait for when the other side is behind. */
  write(line: Text): void | Promise<void> {
    if (this.isBroken) return;
    if (this.#writeLine(line)) return;
    return (this.#room ??= this.#waitForRoom());
  }

  #writeLine(line: Text): boolean {
    if (!(line instanceof LongText)) return this.#output.write(`${line}\n`);
    for (const piece of line.pieces) this.#output.write(piece);
    return this.#output.write("\n");
  }

  #waitForRoom(): Promise<void> {
    const input = this.#input;
    const output = this.#output;
    input.hold();
    return new Promise((resolve) => {
      const onRoom = (): void => {
        output.off("drain", onRoom).off("close", onRoom).off("error", onRoom);
        this.#room = undefined;
        if (!this.isBroken) input.release();
        resolve();
      };
      output.on("drain", onRoom).on("close", onRoom).on("error", onRoom);
    });
  }
}

/** An input that pauses while anything holds it. */
export class HeldInput {
  readonly #input: Readable;
  #holds = 0;

  constructor(input: Readable) {
    this.#input = input;
  }

  hold(): void {
    if (this.#holds++ === 0) this.#input.pause();
  }

  release(): void {
    if (--this.#holds === 0) this.#input.resume();
  }
}
