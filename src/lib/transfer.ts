import { Deserializer, Serializer } from "node:v8";

/**
 * Serializes values sent between processes of Berth, one after the other over a pipe or a connection. Byte arrays in
 * them are sent separately as they are: neither side joins or encodes them, or copies them in one step.
 *
 * A value begins with two 32-bit numbers, its own length and the total length of its bytes, followed by both.
 */
export function serialize(value: unknown): Uint8Array[] {
  const writer = new Writer();
  writer.writeHeader();
  writer.writeValue(value);
  const body = writer.releaseBuffer();
  const head = Buffer.allocUnsafe(HEAD_BYTES);
  head.writeUInt32LE(body.length, 0);
  head.writeUInt32LE(writer.at, BODY_AT);
  return [head, body, ...writer.parts];
}

const HEAD_BYTES = 8;
const BODY_AT = 4;

class Writer extends Serializer {
  readonly parts: Uint8Array[] = [];
  at = 0;

  constructor() {
    super();
    (this as unknown as SerializerInternals)._setTreatArrayBufferViewsAsHostObjects(true);
  }

  /** Called for each byte array. */
  _writeHostObject(bytes: Uint8Array): void {
    this.writeUint32(this.at);
    this.writeUint32(bytes.length);
    this.at += bytes.length;
    this.parts.push(bytes);
  }
}

/** Missing from Node's types. */
interface SerializerInternals {
  _setTreatArrayBufferViewsAsHostObjects(isHost: boolean): void;
}

class Reader extends Deserializer {
  readonly #bytes: Uint8Array<ArrayBuffer>;

  constructor(body: Uint8Array, bytes: Uint8Array<ArrayBuffer>) {
    super(body);
    this.#bytes = bytes;
  }

  _readHostObject(): Uint8Array<ArrayBuffer> {
    const from = this.readUint32();
    return this.#bytes.subarray(from, from + this.readUint32());
  }
}

/** Reads values from the chunks of a pipe. */
export class TransferReader {
  readonly #bytesMax: number;
  #head = new Part(HEAD_BYTES);
  #body: Part | undefined;
  #bytes: Part | undefined;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Returns the values that are complete now. Throws for an invalid value, or one that is too long. */
  push(chunk: Uint8Array): unknown[] {
    const values: unknown[] = [];
    let rest = this.#head.fill(chunk);
    while (this.#head.isFull) {
      if (!this.#body) this.#startValue();
      rest = this.#bytes!.fill(this.#body!.fill(rest));
      if (!this.#body!.isFull || !this.#bytes!.isFull) break;
      values.push(this.#finishValue());
      rest = this.#head.fill(rest);
    }
    return values;
  }

  #startValue(): void {
    const head = Buffer.from(this.#head.bytes.buffer);
    const [body, bytes] = [head.readUInt32LE(0), head.readUInt32LE(BODY_AT)];
    if (body + bytes > this.#bytesMax) throw new Error(`a value of ${body + bytes} bytes is too long`);
    this.#body = new Part(body);
    this.#bytes = new Part(bytes);
  }

  #finishValue(): unknown {
    const reader = new Reader(this.#body!.bytes, this.#bytes!.bytes);
    this.#head = new Part(HEAD_BYTES);
    this.#body = this.#bytes = undefined;
    reader.readHeader();
    return reader.readValue();
  }
}

class Part {
  readonly bytes: Uint8Array<ArrayBuffer>;
  #filled = 0;

  constructor(length: number) {
    this.bytes = new Uint8Array(length);
  }

  get isFull(): boolean {
    return this.#filled === this.bytes.length;
  }

  /** Returns the rest of the chunk. */
  fill(chunk: Uint8Array): Uint8Array {
    const taken = chunk.subarray(0, this.bytes.length - this.#filled);
    this.bytes.set(taken, this.#filled);
    this.#filled += taken.length;
    return chunk.subarray(taken.length);
  }
}
