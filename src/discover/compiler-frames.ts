/** The exit code of the compiler's process when its bundler has ended. */
export const BUNDLER_ENDED = 3;

/** Newline-delimited JSON in pieces, as a pipe delivers them, with a limit on the size of one frame. */
export class CompilerFrameReader {
  readonly #bytesMax: number;
  #pieces: Buffer[] = [];
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** The frames that are complete now. Throws `FrameTooLarge`; what is not JSON throws `SyntaxError`. */
  push(chunk: Buffer): unknown[] {
    const frames: unknown[] = [];
    let rest = chunk;
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      this.#keep(rest.subarray(0, end));
      frames.push(JSON.parse(Buffer.concat(this.#pieces).toString("utf8")));
      this.#pieces = [];
      this.#bytes = 0;
      rest = rest.subarray(end + 1);
    }
    this.#keep(rest);
    return frames;
  }

  #keep(piece: Buffer): void {
    this.#bytes += piece.length;
    if (this.#bytes > this.#bytesMax) throw new FrameTooLarge(this.#bytesMax);
    if (piece.length > 0) this.#pieces.push(piece);
  }
}

export class FrameTooLarge extends Error {
  constructor(bytesMax: number) {
    super(`a frame is larger than ${bytesMax} bytes`);
  }
}

export function frame(value: unknown): string {
  return `${JSON.stringify(value)}\n`;
}
