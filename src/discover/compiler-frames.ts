/** The exit code of the compiler's process when its bundler has ended. */
export const BUNDLER_ENDED = 3;

/**
 * Newline-delimited JSON in pieces, as a pipe delivers them, with a limit on the size of one frame. Where `takesBytes`, so
 * many bytes as a frame's `bytes` says follow it, and become its `payload`.
 */
export class CompilerFrameReader {
  readonly #bytesMax: number;
  readonly #takesBytes: boolean;
  #pieces: Buffer[] = [];
  #bytes = 0;
  /** A frame whose payload is not complete, and how much of it is missing. */
  #head: { readonly frame: object; missing: number } | undefined;

  constructor(bytesMax: number, { takesBytes = false } = {}) {
    this.#bytesMax = bytesMax;
    this.#takesBytes = takesBytes;
  }

  /** The frames that are complete now. Throws `FrameTooLarge`; what is not JSON throws `SyntaxError`. */
  push(chunk: Buffer): unknown[] {
    const frames: unknown[] = [];
    let rest = chunk;
    for (;;) {
      const end = this.#head ? this.#head.missing : rest.indexOf(10);
      if (end < 0 || end > rest.length) break;
      this.#keep(rest.subarray(0, end));
      rest = rest.subarray(this.#head ? end : end + 1);
      const whole = Buffer.concat(this.#pieces.splice(0));
      this.#bytes = 0;
      if (this.#head) frames.push({ ...this.#head.frame, payload: whole });
      const read: unknown = this.#head ? undefined : JSON.parse(whole.toString("utf8"));
      this.#head = this.#takesBytes ? headOf(read) : undefined;
      if (read !== undefined && !this.#head) frames.push(read);
    }
    this.#keep(rest);
    if (this.#head) this.#head.missing -= rest.length;
    return frames;
  }

  #keep(piece: Buffer): void {
    this.#bytes += piece.length;
    if (this.#bytes > this.#bytesMax) throw new FrameTooLarge(this.#bytesMax);
    if (piece.length > 0) this.#pieces.push(piece);
  }
}

function headOf(frame: unknown): { readonly frame: object; missing: number } | undefined {
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
