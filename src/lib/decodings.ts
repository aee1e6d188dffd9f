/** Bytes decoded from a text, and the position of each in it, in UTF-16 code units. */
export class DecodedBytes {
  readonly bytes: Buffer;
  readonly from: Uint32Array;
  readonly to: Uint32Array;
  /** True for base64 and hex, in which short values occur by chance. */
  readonly isUnpacked: boolean;
  length = 0;
  mayHaveEscapes = false;

  constructor(capacity: number, isUnpacked: boolean) {
    this.bytes = Buffer.alloc(capacity);
    [this.from, this.to] = [new Uint32Array(capacity), new Uint32Array(capacity)];
    this.isUnpacked = isUnpacked;
  }

  /** Zero bytes are omitted: without them, UTF-16 is ASCII. */
  push(byte: number, from: number, to: number): void {
    if (byte === 0) return;
    if (startsEscape(byte)) this.mayHaveEscapes = true;
    this.bytes[this.length] = byte;
    this.from[this.length] = from;
    this.to[this.length++] = to;
  }
}

/** Marks where a text was truncated. */
export const CUT = "…";
export const CUT_BYTES = Buffer.from(CUT);
/** Half a surrogate pair, or its replacement: a text may have been truncated there. */
const HALF_PAIRS = /[\p{Cs}\ufffd]/gu;
/** Escapes may be escaped again, as in JSON within JSON: decoded at most this many times. */
const ESCAPE_LEVELS_MAX = 3;
const ESCAPE =
  /%[\da-f]{2}|\\u(?:d[89ab][\da-f]{2}\\ud[c-f][\da-f]{2}|[\da-f]{4})|\\x[\da-f]{2}|\\["'\\/bfnrt]|&#(?:\d{1,7}|x[\da-f]{1,6});|&(?:amp|lt|gt|quot|apos);/gi;
export const ESCAPE_LENGTH_MAX = 12;
const START_OF_ESCAPE = /^[%&\\][#\w]*$/;
const NAMED = new Map(
  Object.entries({ "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'", "\\'": "'" }),
);
/** A byte that does not occur in UTF-8, between runs of base64 or hex. */
const BETWEEN_RUNS = 255;
const BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const [NOT_A_DIGIT, BLANK] = [-1, -2];
/** Digit tables, the bits per digit, and the number of digits that may be missing at the start of a group. */
const PACKINGS = [
  ...[0, 1, 2, 3].map((missing) => ({ digits: digitTable(`${BASE64}+/`, `${BASE64}-_`), bits: 6, missing })),
  ...[0, 1].map((missing) => ({ digits: digitTable("0123456789abcdef", "0123456789ABCDEF"), bits: 4, missing })),
];

function digitTable(...alphabets: readonly string[]): Int8Array {
  const digits = new Int8Array(256).fill(NOT_A_DIGIT);
  for (const blank of Buffer.from(" \t\r\n")) digits[blank] = BLANK;
  for (const alphabet of alphabets) for (const [value, byte] of Buffer.from(alphabet).entries()) digits[byte] = value;
  return digits;
}

/**
 * A text with its escapes decoded once, twice, and so on; and for each of these, the decoded base64 and hex in it at
 * every offset, also with escapes decoded. The total is linear in the text.
 */
export function* decodings(text: string): Generator<DecodedBytes> {
  for (const level of escapeLevels(text)) {
    yield level;
    // Reused for each packing: there are many texts, usually short ones.
    const unpacked = new DecodedBytes(level.length, true);
    for (const packing of PACKINGS) {
      unpack(level, packing, unpacked);
      yield unpacked;
      const unescaped = unescape(unpacked);
      if (unescaped) yield unescaped;
    }
  }
}

/** A text as UTF-8, and with its escapes decoded once, twice, and so on. */
export function* escapeLevels(text: string): Generator<DecodedBytes> {
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
    for (const byte of decodeEscape(escape)) unescaped.push(byte, from[index]!, to[at - 1]!);
  }
  if (unescaped) copyTo(length);
  return unescaped;
}

/** Percent sign, ampersand, or backslash. */
function startsEscape(byte: number): boolean {
  return byte === 37 || byte === 38 || byte === 92;
}

function decodeEscape(escape: string): Buffer {
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
  let [previous, last, bitsLeft] = [NOT_A_DIGIT, 0, (missing * bits) % 8];
  for (let at = 0; at < length; at++) {
    const digit = digits[bytes[at]!]!;
    if (digit === BLANK) continue;
    if (digit === NOT_A_DIGIT && isCutWithin(bytes, at, length)) break;
    if (digit === NOT_A_DIGIT) {
      // Where a text was truncated, so were its runs.
      if (isCut(bytes, at)) for (const byte of CUT_BYTES) unpacked.push(byte, from[at]!, to[at]!);
      else if (unpacked.bytes[unpacked.length - 1] !== BETWEEN_RUNS) unpacked.push(BETWEEN_RUNS, from[at]!, to[at]!);
    } else if ((bitsLeft += bits) >= 8) {
      bitsLeft -= 8;
      if (previous !== NOT_A_DIGIT)
        unpacked.push((((previous << bits) | digit) >> bitsLeft) & 255, from[last]!, to[at]!);
    }
    if (digit === NOT_A_DIGIT) bitsLeft = (missing * bits) % 8;
    if (digit === NOT_A_DIGIT && isCut(bytes, at)) at += CUT_BYTES.length - 1;
    previous = digit;
    last = at;
  }
}

export function isCut(bytes: Buffer, at: number): boolean {
  return bytes[at] === CUT_BYTES[0] && bytes[at + 1] === CUT_BYTES[1] && bytes[at + 2] === CUT_BYTES[2];
}

/** True if a text that was truncated at `end` may have been truncated within the value or escape at `at`. */
export function isCutWithin(bytes: Buffer, at: number, end: number): boolean {
  if (at === end) return true;
  return (
    end - at < ESCAPE_LENGTH_MAX && startsEscape(bytes[at]!) && START_OF_ESCAPE.test(bytes.toString("latin1", at, end))
  );
}
