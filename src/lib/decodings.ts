/** Bytes decoded from a text, and where each is written in it, in UTF-16 units. */
export class DecodedBytes {
  readonly bytes: Buffer;
  readonly from: Uint32Array;
  readonly to: Uint32Array;
  /** True for base64 and hex, of which chance makes short values. */
  readonly isUnpacked: boolean;
  length = 0;
  mayHaveEscapes = false;

  constructor(capacity: number, isUnpacked: boolean) {
    this.bytes = Buffer.alloc(capacity);
    [this.from, this.to] = [new Uint32Array(capacity), new Uint32Array(capacity)];
    this.isUnpacked = isUnpacked;
  }

  /** Zero bytes are left out: without them UTF-16 is ASCII. */
  push(byte: number, from: number, to: number): void {
    if (byte === 0) return;
    if (beginsEscape(byte)) this.mayHaveEscapes = true;
    this.bytes[this.length] = byte;
    this.from[this.length] = from;
    this.to[this.length++] = to;
  }
}

/** Marks where a text was cut. */
export const CUT = "…";
export const CUT_BYTES = Buffer.from(CUT);
/** Half a surrogate pair, and what replaces one: a text may have been cut there. */
const HALF_PAIRS = /[\p{Cs}\ufffd]/gu;
/** Escapes may be escaped again, as in JSON within JSON: so many times they are decoded. */
const ESCAPE_LEVELS_MAX = 3;
const ESCAPE =
  /%[\da-f]{2}|\\u(?:d[89ab][\da-f]{2}\\ud[c-f][\da-f]{2}|[\da-f]{4})|\\x[\da-f]{2}|\\["'\\/bfnrt]|&#(?:\d{1,7}|x[\da-f]{1,6});|&(?:amp|lt|gt|quot|apos);/gi;
export const ESCAPE_LENGTH_MAX = 12;
const START_OF_ESCAPE = /^[%&\\][#\w]*$/;
const NAMED = new Map(
  Object.entries({ "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'", "\\'": "'" }),
);
/** A byte that is not in UTF-8, between runs of base64 or hex. */
const BETWEEN_RUNS = 255;
const BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const [NONE, BLANK] = [-1, -2];
/** Tables of digits, the bits of each digit, and the digits that may be missing at the beginning of a group. */
const PACKINGS = [
  ...[0, 1, 2, 3].map((missing) => ({ digits: digitsOf(`${BASE64}+/`, `${BASE64}-_`), bits: 6, missing })),
  ...[0, 1].map((missing) => ({ digits: digitsOf("0123456789abcdef", "0123456789ABCDEF"), bits: 4, missing })),
];

function digitsOf(...alphabets: readonly string[]): Int8Array {
  const digits = new Int8Array(256).fill(NONE);
  for (const blank of Buffer.from(" \t\r\n")) digits[blank] = BLANK;
  for (const alphabet of alphabets) for (const [value, byte] of Buffer.from(alphabet).entries()) digits[byte] = value;
  return digits;
}

/**
 * A text with its escapes decoded once, twice, and so on; and of each of these what base64 and hex in it say, at every
 * offset, with their escapes decoded as well. Together they are linear in the text.
 */
export function* decodings(text: string): Generator<DecodedBytes> {
  for (const level of levels(text)) {
    yield level;
    // Used again for each packing: texts are many and short as a rule.
    const unpacked = new DecodedBytes(level.length, true);
    for (const packing of PACKINGS) {
      unpack(level, packing, unpacked);
      yield unpacked;
      const inside = unescape(unpacked);
      if (inside) yield inside;
    }
  }
}

/** A text as UTF-8, and with its escapes decoded once, twice, and so on. */
export function* levels(text: string): Generator<DecodedBytes> {
  let level = utf8(text);
  yield level;
  for (let count = 0; count < ESCAPE_LEVELS_MAX; count++) {
    const next = unescape(level);
    if (!next) return;
    yield (level = next);
  }
}

function utf8(text: string): DecodedBytes {
  const bytes = Buffer.from(text.replace(HALF_PAIRS, "\0"));
  const decoded = new DecodedBytes(bytes.length, false);
  let [from, to] = [0, 0];
  for (const byte of bytes) {
    if ((byte & 0xc0) !== 0x80) {
      from = to;
      to += byte >= 0xf0 ? 2 : 1;
    }
    decoded.push(byte, from, to);
  }
  return decoded;
}

/** Decodes the escapes of JSON, URLs and HTML; undefined if there are none. */
function unescape(decoded: DecodedBytes): DecodedBytes | undefined {
  const { bytes, from, to, length, isUnpacked } = decoded;
  if (!decoded.mayHaveEscapes) return undefined;
  let [unescaped, at]: [DecodedBytes | undefined, number] = [undefined, 0];
  const copyTo = (end: number): void => {
    for (; at < end; at++) unescaped?.push(bytes[at]!, from[at]!, to[at]!);
  };
  for (const { 0: escape, index } of bytes.toString("latin1", 0, length).matchAll(ESCAPE)) {
    unescaped ??= new DecodedBytes(length, isUnpacked);
    copyTo(index);
    at += escape.length;
    for (const byte of bytesOf(escape)) unescaped.push(byte, from[index]!, to[at - 1]!);
  }
  if (unescaped) copyTo(length);
  return unescaped;
}

/** Percent sign, ampersand, or backslash. */
function beginsEscape(byte: number): boolean {
  return byte === 37 || byte === 38 || byte === 92;
}

function bytesOf(escape: string): Buffer {
  if (escape.startsWith("%") || /^\\x/i.test(escape)) return Buffer.from(escape.slice(-2), "hex");
  const code = escape.startsWith("&#") ? Number(escape.slice(2, -1).replace(/x/i, "0x")) : undefined;
  if (code !== undefined) return Buffer.from(code > 0x10ffff ? "" : String.fromCodePoint(code));
  const lower = escape.toLowerCase();
  return Buffer.from(NAMED.get(lower) ?? (JSON.parse(`"${lower}"`) as string).replace(HALF_PAIRS, ""));
}

/** Decodes each run of digits as if some of its first group were missing. */
function unpack(
  { bytes, from, to, length }: DecodedBytes,
  { digits, bits, missing }: (typeof PACKINGS)[0],
  unpacked: DecodedBytes,
): void {
  unpacked.length = 0;
  unpacked.mayHaveEscapes = false;
  let [previous, last, bitsLeft] = [NONE, 0, (missing * bits) % 8];
  for (let at = 0; at < length; at++) {
    const digit = digits[bytes[at]!]!;
    if (digit === BLANK) continue;
    if (digit === NONE && isCutWithin(bytes, at, length)) break;
    if (digit === NONE) {
      // Where a text was cut, so were its runs.
      if (isCut(bytes, at)) for (const byte of CUT_BYTES) unpacked.push(byte, from[at]!, to[at]!);
      else if (unpacked.bytes[unpacked.length - 1] !== BETWEEN_RUNS) unpacked.push(BETWEEN_RUNS, from[at]!, to[at]!);
    } else if ((bitsLeft += bits) >= 8) {
      bitsLeft -= 8;
      if (previous !== NONE) unpacked.push((((previous << bits) | digit) >> bitsLeft) & 255, from[last]!, to[at]!);
    }
    if (digit === NONE) bitsLeft = (missing * bits) % 8;
    if (digit === NONE && isCut(bytes, at)) at += CUT_BYTES.length - 1;
    previous = digit;
    last = at;
  }
}

export function isCut(bytes: Buffer, at: number): boolean {
  return bytes[at] === CUT_BYTES[0] && bytes[at + 1] === CUT_BYTES[1] && bytes[at + 2] === CUT_BYTES[2];
}

/** True if a text that was cut at `end` may have been cut within what begins at `at`. */
export function isCutWithin(bytes: Buffer, at: number, end: number): boolean {
  if (at === end) return true;
  return (
    end - at < ESCAPE_LENGTH_MAX && beginsEscape(bytes[at]!) && START_OF_ESCAPE.test(bytes.toString("latin1", at, end))
  );
}
