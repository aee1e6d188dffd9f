/** A message of npm's process in the sandbox to the host: a line of JSON, and as many bytes as it names. */
export type NpmFrame =
  | { readonly kind: "ready" }
  /** A tarball. */
  | { readonly kind: "file"; readonly bytes: number }
  /** JSON: what came of it. */
  | { readonly kind: "result"; readonly bytes: number };

export function npmFrame(frame: NpmFrame): Buffer {
  return Buffer.from(`${JSON.stringify(frame)}\n`);
}

/** The longest line of a frame. */
const HEAD_BYTES_MAX = 200;

/** Reads frames as they come. Throws for anything that is none, and for one that is longer than its limit. */
export class NpmFrameReader {
  readonly #limits: { readonly file: number; readonly result: number };
  #head: Buffer = Buffer.alloc(0);
  #frame: NpmFrame | undefined;
  #body = Buffer.alloc(0);
  #filled = 0;

  constructor(limits: { readonly file: number; readonly result: number }) {
    this.#limits = limits;
  }

  /** The frames that are complete now. */
  *push(chunk: Buffer): Generator<{ readonly kind: NpmFrame["kind"]; readonly body: Buffer }> {
    for (let rest = chunk; rest.length > 0 || this.#isComplete();) {
      if (!this.#frame) rest = this.#readHead(rest);
      if (!this.#frame) return;
      const taken = Math.min(rest.length, this.#body.length - this.#filled);
      rest.copy(this.#body, this.#filled, 0, taken);
      this.#filled += taken;
      rest = rest.subarray(taken);
      if (!this.#isComplete()) return;
      const { kind } = this.#frame;
      const body = this.#body;
      this.#frame = undefined;
      yield { kind, body };
    }
  }

  #isComplete(): boolean {
    return this.#frame !== undefined && this.#filled === this.#body.length;
  }

  #readHead(chunk: Buffer): Buffer {
    const end = chunk.indexOf(0x0a);
    this.#head = Buffer.concat([this.#head, end < 0 ? chunk : chunk.subarray(0, end)]);
    if (this.#head.length > HEAD_BYTES_MAX) throw new Error("it wrote something that is no frame");
    if (end < 0) return chunk.subarray(chunk.length);
    const frame = asFrame(this.#head.toString("utf8"));
    this.#head = Buffer.alloc(0);
    const bytes = frame.kind === "ready" ? 0 : frame.bytes;
    const limit = frame.kind === "ready" ? 0 : this.#limits[frame.kind];
    if (bytes > limit) throw new Error(`it wrote ${bytes} bytes at once, more than ${limit}`);
    this.#frame = frame;
    this.#filled = 0;
    this.#body = Buffer.allocUnsafeSlow(bytes);
    return chunk.subarray(end + 1);
  }
}

function asFrame(line: string): NpmFrame {
  const frame = JSON.parse(line) as NpmFrame;
  if (frame.kind === "ready") return frame;
  if ((frame.kind === "file" || frame.kind === "result") && Number.isSafeInteger(frame.bytes) && frame.bytes >= 0)
    return frame;
  throw new Error("it wrote something that is no frame");
}
