import { BytePatterns, type BytePattern } from "./byte-patterns.ts";
import {
  CUT,
  CUT_BYTES,
  decodings,
  ESCAPE_LENGTH_MAX,
  isCut,
  isCutWithin,
  escapeLevels,
  type DecodedBytes,
} from "./decodings.ts";
import { isObject, type Json } from "./json.ts";

/** Replaces a value. */
export const HIDDEN = "[hidden]";
/** At the edge of a truncated text, parts of a value are hidden if they have at least this many bytes. */
const PARTIAL_LENGTH_MIN = 6;
/** Shorter values are not searched for in base64 and hex. */
const UNPACKED_LENGTH_MIN = 4;
/** The oldest values beyond these are dropped, so that a server that keeps receiving new ones stays fast. */
const VALUES_MAX = 256;
/** The same for the UTF-16 code units of all values together. */
const VALUES_UNITS_MAX = 512 * 1024;
/** A longer value is recognized by its first and last bytes; as many bytes as it has are hidden with them. */
const EDGE_BYTES = 128;
/** A line of a longer value, such as a private key, is also hidden on its own from this length on. */
const LINE_LENGTH_MIN = 16;
/** The most lines that are hidden on their own; those of the oldest values are dropped first. */
const LINES_MAX = 1_024;
/** Longer texts are truncated, and so are all texts of one value together; in UTF-16 code units. */
const SHOWN_UNITS_MAX = 32 * 1024;
/** The same for members and items; the rest is omitted. */
const SHOWN_VALUES_MAX = 4_096;
/** Values that are nested deeper are hidden: each level takes space on the stack. */
const DEPTH_MAX = 500;
/** A longer text that must not be truncated is hidden as a whole; in UTF-16 code units. */
const WHOLE_UNITS_MAX = 128 * 1024;

/**
 * Removes values from texts that are shown or logged: as they are, and as programs write them in JSON, URLs, HTML,
 * base64 and hex. It cannot find values that a program has transformed otherwise. The work is linear in the text,
 * however many values there are and whatever they have in common.
 */
export class Redactor {
  /** True if values were dropped. */
  isIncomplete = false;
  readonly #values = new Set<string>();
  readonly #base: Redactor | undefined;
  #units = 0;
  #index: Index | undefined;

  /** Also hides the values of `base`. */
  constructor(base?: Redactor) {
    this.#base = base;
  }

  add(value: string): void {
    if (value === "" || this.#values.has(value)) return;
    this.#values.add(value);
    this.#units += value.length;
    for (const oldest of this.#values) {
      if (oldest === value || (this.#values.size <= VALUES_MAX && this.#units <= VALUES_UNITS_MAX)) break;
      this.#values.delete(oldest);
      this.#units -= oldest.length;
      this.isIncomplete = true;
    }
    this.#index = undefined;
  }

  hide(text: string): string {
    return this.#hide(text, new Budget());
  }

  /** The same for each string and number in a value, including member names. */
  hideIn(value: Json): Json {
    return this.#indexes().length === 0 ? value : this.#hideIn(value, new Budget(), 0);
  }

  /**
   * Removes every form of values of at least `lengthMin` characters from a complete text: nothing is truncated, and the
   * beginning of a value alone is not hidden. Yields to other calls.
   */
  async hideWhole(text: string, lengthMin: number, yieldIfDue: () => Promise<void> | undefined): Promise<string> {
    const indexes = this.#indexes();
    if (indexes.length === 0) return text;
    if (text.length > WHOLE_UNITS_MAX) return HIDDEN;
    const ends = new Uint32Array(text.length);
    for (const decoded of decodings(text)) {
      for (const index of indexes) search(decoded, index, ends, lengthMin);
      await yieldIfDue();
    }
    return removeRanges(text, ends);
  }

  #hideIn(value: Json, budget: Budget, depth: number): Json {
    if (typeof value === "string") return this.#hide(value, budget);
    if (typeof value === "number") return this.#hide(String(value), budget) === String(value) ? value : HIDDEN;
    if (!Array.isArray(value) && !isObject(value)) return value;
    if (depth === DEPTH_MAX) return HIDDEN;
    const redacted: [string, Json][] = [];
    const members = value as Readonly<Record<string, Json>>;
    for (const name in members) {
      if (budget.values-- <= 0) {
        redacted.push([HIDDEN, HIDDEN]);
        break;
      }
      const member = this.#hideIn(members[name]!, budget, depth + 1);
      redacted.push([Array.isArray(value) ? name : this.#hide(name, budget), member]);
    }
    return Array.isArray(value) ? redacted.map(([, item]) => item) : Object.fromEntries(redacted);
  }

  #hide(text: string, budget: Budget): string {
    const indexes = this.#indexes();
    if (indexes.length === 0) return text;
    if (budget.units <= 0) return HIDDEN;
    const truncated = text.slice(0, budget.units);
    budget.units -= text.length;
    const ends = new Uint32Array(truncated.length);
    for (const decoded of decodings(truncated)) for (const index of indexes) search(decoded, index, ends);
    return removeRanges(truncated, ends) + (budget.units < 0 ? CUT : "");
  }

  /** Its own index and those of its base; none is empty. */
  #indexes(): readonly Index[] {
    const inherited = this.#base ? this.#base.#indexes() : [];
    return this.#values.size === 0 ? inherited : [(this.#index ??= buildIndex([...this.#values])), ...inherited];
  }
}

class Budget {
  units = SHOWN_UNITS_MAX;
  values = SHOWN_VALUES_MAX;
}

/** Finds values, and the ends of values at the start of a truncated text. */
interface Index {
  readonly forward: BytePatterns;
  readonly backward: BytePatterns;
}

/** Texts that may have different bytes in each decoding. */
const ENCODED = /[\0%&\\\p{Cs}\ufffd]/u;

function buildIndex(values: readonly string[]): Index {
  const lines = values
    .toReversed()
    .flatMap((value) => value.split(/\r?\n|\\n/).filter((line) => line.length >= LINE_LENGTH_MIN))
    .slice(0, LINES_MAX);
  // HTML forms encode spaces as plus signs.
  const texts = new Set([...values, ...lines].flatMap((text) => [text, text.replaceAll(" ", "+")]));
  const patterns = [...texts].flatMap((text) =>
    ENCODED.test(text)
      ? [...escapeLevels(text)].flatMap(edges)
      : edges({ bytes: Buffer.from(text), length: Buffer.byteLength(text) }),
  );
  const ends = patterns.filter(({ bytes, after }) => after === 0 && bytes.length >= PARTIAL_LENGTH_MIN);
  return {
    forward: new BytePatterns(patterns),
    backward: new BytePatterns(ends.map(({ bytes, before, after }) => ({ bytes: bytes.toReversed(), before, after }))),
  };
}

function edges({ bytes, length }: Pick<DecodedBytes, "bytes" | "length">): BytePattern[] {
  if (length <= EDGE_BYTES) return length === 0 ? [] : [{ bytes: bytes.subarray(0, length), before: length, after: 0 }];
  return [
    { bytes: bytes.subarray(0, EDGE_BYTES), before: EDGE_BYTES, after: length - EDGE_BYTES },
    { bytes: bytes.subarray(length - EDGE_BYTES, length), before: length, after: 0 },
  ];
}

const REST_OF_ESCAPE = /^\\*(?:[#\w]*;|u?[\da-f]{0,4}|[nrt])$/i;

/**
 * Records the ranges to hide: their ends, in the text, by their starts. With `lengthMin` the text is complete;
 * otherwise it may be truncated within a value at its start, at its end, and at each truncation mark.
 */
function search(decoded: DecodedBytes, { forward, backward }: Index, ends: Uint32Array, lengthMin?: number): void {
  const { bytes, from, to, length, isUnpacked } = decoded;
  const hide = (start: number, end: number): void => void (ends[start] = Math.max(ends[start]!, end));
  const min = lengthMin ?? (isUnpacked ? UNPACKED_LENGTH_MIN : 1);
  let [state, start, end] = [0, 0, lengthMin === undefined ? -CUT_BYTES.length : length];
  for (let at = 0; ; at++) {
    if (at === end + CUT_BYTES.length) {
      [start, end] = [at, at];
      while (end < length && !isCut(bytes, end)) end++;
      if (end - start >= PARTIAL_LENGTH_MIN) hideEnd(decoded, start, end, backward, hide);
    }
    const depth = forward.depth[state]!;
    if (depth >= PARTIAL_LENGTH_MIN && lengthMin === undefined && at <= end && isCutWithin(bytes, at, end))
      hide(from[at - depth]!, end === length ? ends.length : from[end]!);
    if (at === length) return;
    state = forward.next(state, bytes[at]!);
    const before = forward.before[state]!;
    if (before === 0 || before < min) continue;
    const first = Math.max(before > EDGE_BYTES ? start : 0, at + 1 - before);
    const last = Math.min(at < end ? end : length, at + 1 + forward.after[state]!) - 1;
    hide(from[first]!, to[last]!);
  }
}

/** Hides the end of a value at the start of a part of a text, possibly after the rest of an escape. */
function hideEnd(
  { bytes, to }: DecodedBytes,
  start: number,
  end: number,
  backward: BytePatterns,
  hide: (start: number, end: number) => void,
): void {
  let state = 0;
  for (let at = Math.min(end, start + EDGE_BYTES + ESCAPE_LENGTH_MAX) - 1; at >= start; at--) {
    state = backward.next(state, bytes[at]!);
    const depth = backward.depth[state]!;
    if (depth < PARTIAL_LENGTH_MIN || at - start > ESCAPE_LENGTH_MAX) continue;
    if (REST_OF_ESCAPE.test(bytes.toString("latin1", start, at)))
      hide(start === 0 ? 0 : to[start - 1]!, to[at + depth - 1]!);
  }
}

function removeRanges(text: string, ends: Uint32Array): string {
  let [result, at] = ["", 0];
  for (let start = 0; start < ends.length; start++) {
    const end = ends[start]!;
    if (end === 0) continue;
    if (start >= at) result += text.slice(at, start) + HIDDEN;
    at = Math.max(at, end);
  }
  return result + text.slice(at);
}
