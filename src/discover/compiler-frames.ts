/** Exit code of the compiler's process when its bundler has exited. */
export const BUNDLER_ENDED = 3;

/**
 * Parses newline-delimited JSON in chunks, as a pipe delivers them, with a limit on the size of a frame. With
 * `takesBytes`, a frame's `bytes` is the length of the binary payload that follows it and becomes its `payload`.
 */
export class CompilerFrameReader {
  readonly #bytesMax: number;
  readonly #takesBytes: boolean;
  #pieces: Buffer[] = [];
  #bytes = 0;
  /** A frame whose payload is incomplete, and the number of missing bytes. */
  #head: { readonly frame: object; missing: number } | undefined;

  constructor(bytesMax: number, { takesBytes = false } = {}) {
    this.#bytesMax = bytesMax;
    this.#takesBytes = takesBytes;
  }

  /** The frames completed by this chunk. Throws `FrameTooLarge`, and `SyntaxError` for invalid JSON. */
  push(chunk: Buffer): unknown[] {
    const frames: unknown[] = [];
    let rest = chunk;
    for (;;) {
      const end = this.#head ? this.#head.missing : rest.indexOf(10);
      if (end < 0 || end > rest.length) break;
      this.#append(rest.subarray(0, end));
      rest = rest.subarray(this.#head ? end : end + 1);
      const whole = Buffer.concat(this.#pieces.splice(0));
      this.#bytes = 0;
      if (this.#head) frames.push({ ...this.#head.frame, payload: whole });
      const value: unknown = this.#head ? undefined : JSON.parse(whole.toString("utf8"));
      this.#head = this.#takesBytes ? parseHead(value) : undefined;
      if (value !== undefined && !this.#head) frames.push(value);
    }
    this.#append(rest);
    if (this.#head) this.#head.missing -= rest.length;
    return frames;
  }

  #append(piece: Buffer): void {
    this.#bytes += piece.length;
    if (this.#bytes > this.#bytesMax) throw new FrameTooLarge(this.#bytesMax);
    if (piece.length > 0) this.#pieces.push(piece);
  }
}

function parseHead(frame: unknown): { readonly frame: object; missing: number } | undefined {
  const { bytes } = (frame ?? {}) as { bytes?: unknown };
  return typeof bytes === "number" ? { frame: frame as object, missing: bytes } : undefined;
}

export class FrameTooLarge extends Error {
  constructor(bytesMax: number) {
    super(`a frame is larger than ${bytesMax} bytes`);
  }
}

export function frame(value: unknown): string {
  return `${JSON.stringify(value)}\n`;
}
