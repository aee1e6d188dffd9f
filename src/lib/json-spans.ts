import { createYielder } from "./event-loop.ts";
import { endOfString } from "./json.ts";

/**
 * The positions of the members of a JSON object in its text. Values are skipped, not parsed: for a configuration of
 * thousands of servers, building a parser's tree would delay every call. This yields to other calls as well. Only for
 * valid JSON; the result for other texts is meaningless.
 */
export interface Span {
  readonly start: number;
  /** The offset after its last character. */
  readonly end: number;
}

export interface MemberSpan extends Span {
  readonly name: string;
  readonly value: ValueSpan;
}

interface ValueSpan extends Span {
  /** The number of values in it, including itself. */
  readonly values: number;
  /** Its UTF-16 code units without white space between values. */
  readonly units: number;
}

export interface ObjectSpan extends Span {
  readonly members: readonly MemberSpan[];
}

/** The object at `start` or after white space; undefined for anything else. Reads at most `membersMax` + 1 members. */
export async function objectSpan(text: string, start: number, membersMax = Infinity): Promise<ObjectSpan | undefined> {
  const open = skipSpace(text, start);
  if (text[open] !== "{") return undefined;
  const members: MemberSpan[] = [];
  let at = skipSpace(text, open + 1);
  const yieldIfDue = createYielder();
  while (text[at] === '"' && members.length <= membersMax) {
    await yieldIfDue();
    const key = { start: at, end: endOfString(text, at) };
    const value = valueSpan(text, skipSpace(text, key.end) + 1);
    const name = parseName(text.slice(key.start, key.end));
    members.push({ name, start: key.start, end: value.end, value });
    at = skipSpace(text, value.end);
    if (text[at] === ",") at = skipSpace(text, at + 1);
  }
  return { start: open, end: at + 1, members };
}

/** Limits on parsing an object. */
export interface ObjectBounds {
  readonly members: number;
  /** Values in one member, including its own value. */
  readonly values: number;
  /** UTF-16 code units of one member's value, without white space between values. */
  readonly units: number;
  /** Values in the whole object. */
  readonly allValues: number;
}

/** The names of members that exceed their limits, or `all` if the object exceeds its own. */
export type Oversized = readonly string[] | "all";

/**
 * Like `JSON.parse`, but parses the object of a long text member by member, yielding to other calls in between. Throws
 * for invalid JSON, and returns null for a long text that is not an object. A member with too many values or code units
 * becomes null, and an object that is too large is not parsed: both are detected before parsing. A short text, which
 * needs no yielding, is parsed whole, whatever is in it.
 */
export async function parseObjectYielding(
  text: string,
  bounds: ObjectBounds,
): Promise<{ readonly value: unknown; readonly tooMuch?: Oversized }> {
  if (text.length <= INLINE_UNITS_MAX) return { value: JSON.parse(text) as unknown };
  const span = await objectSpan(text, 0, bounds.members);
  if (!span) return { value: null };
  const values = span.members.reduce((sum, { value }) => sum + value.values, 1);
  if (span.members.length > bounds.members || values > bounds.allValues) return { value: {}, tooMuch: "all" };
  const members: Record<string, unknown> = {};
  const oversized: string[] = [];
  const yieldIfDue = createYielder();
  let end = span.start + 1;
  for (const [index, { name, value, ...member }] of span.members.entries()) {
    await yieldIfDue();
    // The text between two members shows whether it is JSON at all.
    if (text.slice(end, member.start).trim() !== (index === 0 ? "" : ",")) throw unexpectedAt(end);
    end = member.end;
    let parsed: unknown = null;
    if (value.values > bounds.values || value.units > bounds.units) oversized.push(name);
    else parsed = (JSON.parse(`{${text.slice(member.start, end)}}`) as Record<string, unknown>)[name];
    // Like Object.fromEntries, which would need all members at the same time.
    Object.defineProperty(members, name, { ...MEMBER, value: parsed });
  }
  if (text.slice(end).trim() !== "}") throw unexpectedAt(end);
  return { value: members, ...(oversized.length > 0 && { tooMuch: oversized }) };
}

const MEMBER = { writable: true, enumerable: true, configurable: true };

/** The code units of a whole text, as `ObjectBounds` counts them. */
export function countUnits(text: string): number {
  return valueSpan(text, 0).units;
}

function unexpectedAt(offset: number): SyntaxError {
  return new SyntaxError(`Unexpected text at position ${offset}`);
}

/** A text of this length is parsed in a millisecond or two. */
const INLINE_UNITS_MAX = 64 * 1024;
const SPACE = /[ \t\n\r]*/y;
/** A number, or a word such as `null`. */
const PLAIN = /[^\s,\]}]*/y;

function parseName(key: string): string {
  return key.includes("\\") ? (JSON.parse(key) as string) : key.slice(1, -1);
}

function valueSpan(text: string, from: number): ValueSpan {
  const start = skipSpace(text, from);
  if (text[start] === '"') return plainSpan(start, endOfString(text, start));
  if (text[start] === "{" || text[start] === "[") return structureSpan(text, start);
  return plainSpan(start, matchAt(PLAIN, text, start));
}

function plainSpan(start: number, end: number): ValueSpan {
  return { start, end, values: 1, units: end - start };
}

/** Takes some nanoseconds per character; an unterminated structure extends to the end of the text. */
function structureSpan(text: string, start: number): ValueSpan {
  let depth = 0;
  let values = 1;
  let spaces = 0;
  /** True right after a structure opens, while it is still empty. */
  let isEmpty = false;
  for (let at = start; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code <= SPACE_CODE) {
      spaces += 1;
      continue;
    }
    if (code === CLOSE_LIST || code === CLOSE_OBJECT) {
      isEmpty = false;
      if (--depth === 0) return { start, end: at + 1, values, units: at + 1 - start - spaces };
      continue;
    }
    if (isEmpty || code === COMMA) values += 1;
    isEmpty = code === OPEN_LIST || code === OPEN_OBJECT;
    if (isEmpty) depth += 1;
    else if (code === QUOTE) at = endOfString(text, at) - 1;
  }
  return { start, end: text.length, values, units: text.length - start - spaces };
}

const [SPACE_CODE, QUOTE, COMMA] = [0x20, 0x22, 0x2c];
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

function skipSpace(text: string, start: number): number {
  return matchAt(SPACE, text, start);
}

function matchAt(pattern: RegExp, text: string, start: number): number {
  pattern.lastIndex = start;
  pattern.exec(text);
  return pattern.lastIndex;
}
