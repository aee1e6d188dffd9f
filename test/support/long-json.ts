import { DECODE_STEP_BYTES } from "../../src/lib/long-text.ts";

const LONG_UNITS = 65_536;
/** Berth's own code, by the paths of source maps or of the build. */
const OWN = /(?<!\/node_modules\/\S*)\/src\/\S+/;

/**
 * The places where Berth's own code in this process parses or writes a longer JSON text than the serving thread may,
 * while `use` runs.
 */
export async function longJsonIn(use: () => Promise<void>): Promise<string[]> {
  const { parse, stringify } = JSON;
  const seen: string[] = [];
  const note = (text: unknown): void => {
    if (typeof text !== "string" || text.length <= LONG_UNITS) return;
    const by = OWN.exec(new Error().stack!)?.[0];
    if (by !== undefined) seen.push(by);
  };
  JSON.parse = (text: string, ...more) => {
    note(text);
    return parse(text, ...more) as unknown;
  };
  JSON.stringify = ((...given: Parameters<typeof stringify>) => {
    const text = stringify(...given);
    note(text);
    return text;
  }) as typeof stringify;
  try {
    await use();
  } finally {
    Object.assign(JSON, { parse, stringify });
  }
  return seen;
}

/** As `longJsonIn`, where it decodes more bytes at a stretch than the serving thread may. */
export async function longDecodedIn(use: () => Promise<void>): Promise<string[]> {
  const seen: string[] = [];
  const note = (bytes: number): void => {
    const by = bytes > DECODE_STEP_BYTES ? OWN.exec(new Error().stack!)?.[0] : undefined;
    if (by !== undefined) seen.push(by);
  };
  // oxlint-disable-next-line typescript/unbound-method -- it is called with what it was called on
  const { decode } = TextDecoder.prototype;
  const { toString } = Buffer.prototype;
  TextDecoder.prototype.decode = function (bytes, options) {
    note(bytes?.byteLength ?? 0);
    return decode.call(this, bytes, options);
  };
  Buffer.prototype.toString = function (this: Buffer, encoding?: BufferEncoding, from = 0, to = this.length) {
    // UTF-16 is copied as it is.
    note(encoding === "utf16le" ? 0 : to - from);
    return toString.call(this, encoding, from, to);
  };
  try {
    await use();
  } finally {
    TextDecoder.prototype.decode = decode;
    Buffer.prototype.toString = toString;
  }
  return seen;
}
