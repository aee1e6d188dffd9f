import { turnTaker } from "./event-loop.ts";
import { endOfString } from "./json.ts";

/**
 * The places of the members of a JSON object in its text. Their contents are skipped, not parsed: for a configuration
 * of thousands of servers, building a parser's tree would hold up every call. Even so, calls have turns meanwhile. Only
 * for texts that are JSON; for others the result is of no use.
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
  /** The UTF-16 units that it has without the white space between values. */
  readonly units: number;
}

export interface ObjectSpan extends Span {
  readonly members: readonly MemberSpan[];
}

/**
 * The object that begins at `start` or after white space there; undefined for anything else. Reads at most one member
 * more than `most`.
 */
export async function objectSpan(text: string, start: number, most = Infinity): Promise<ObjectSpan | undefined> {
  const open = afterSpace(text, start);
  if (text[open] !== "{") return undefined;
  const members: MemberSpan[] = [];
  let at = afterSpace(text, open + 1);
  const takeTurns = turnTaker();
  while (text[at] === '"' && members.length <= most) {
    await takeTurns();
    const key = { start: at, end: endOfString(text, at) };
    const value = valueSpan(text, afterSpace(text, key.end) + 1);
    const name = nameIn(text.slice(key.start, key.end));
    members.push({ name, start: key.start, end: value.end, value });
    at = afterSpace(text, value.end);
    if (text[at] === ",") at = afterSpace(text, at + 1);
  }
  return { start: open, end: at + 1, members };
}

/** The limits on what is read of an object. */
export interface ObjectBounds {
  readonly members: number;
  /** Values in one member, including its own value. */
  readonly values: number;
  /** UTF-16 units of one member's value, without the white space between values. */
  readonly units: number;
  /** Values in all of it. */
  readonly allValues: number;
}

/** The names of members that exceed their bounds, or `all` if the object exceeds its own. */
export type TooMuch = readonly string[] | "all";

/**
 * Like `JSON.parse`, but reads the object of a long text member by member: other calls have turns in between. Throws
 * for invalid JSON, and gives null for a long text that is no object. A member with too many values or units becomes
 * null, and an object with too much in all is not read: both are found before anything is parsed. A short text, which
 * takes no turns, is read whole, whatever is in it.
 */
export async function parseInTurns(
  text: string,
  bounds: ObjectBounds,
): Promise<{ readonly value: unknown; readonly tooMuch?: TooMuch }> {
  if (text.length <= AT_ONCE_UNITS) return { value: JSON.parse(text) as unknown };
  const span = await objectSpan(text, 0, bounds.members);
  if (!span) return { value: null };
  const values = span.members.reduce((sum, { value }) => sum + value.values, 1);
  if (span.members.length > bounds.members || values > bounds.allValues) return { value: {}, tooMuch: "all" };
  const members: Record<string, unknown> = {};
  const tooMuch: string[] = [];
  const takeTurns = turnTaker();
  let end = span.start + 1;
  for (const [index, { name, value, ...member }] of span.members.entries()) {
    await takeTurns();
    // The text between two members shows if it is JSON at all.
    if (text.slice(end, member.start).trim() !== (index === 0 ? "" : ",")) throw unexpectedAt(end);
    end = member.end;
    let read: unknown = null;
    if (value.values > bounds.values || value.units > bounds.units) tooMuch.push(name);
    else read = (JSON.parse(`{${text.slice(member.start, end)}}`) as Record<string, unknown>)[name];
    // As Object.fromEntries does it, which would need all members at once.
    Object.defineProperty(members, name, { ...MEMBER, value: read });
  }
  if (text.slice(end).trim() !== "}") throw unexpectedAt(end);
  return { value: members, ...(tooMuch.length > 0 && { tooMuch }) };
}

const MEMBER = { writable: true, enumerable: true, configurable: true };

/** The units of a whole text, as `ObjectBounds` counts them. */
export function unitsOf(text: string): number {
  return valueSpan(text, 0).units;
}

function unexpectedAt(offset: number): SyntaxError {
  return new SyntaxError(`Unexpected text at position ${offset}`);
}

/** A text of this length is parsed in a millisecond or two. */
const AT_ONCE_UNITS = 64 * 1024;
const SPACE = /[ \t\n\r]*/y;
/** A number, or a word such as `null`. */
const PLAIN = /[^\s,\]}]*/y;

function nameIn(key: string): string {
  return key.includes("\\") ? (JSON.parse(key) as string) : key.slice(1, -1);
}

function valueSpan(text: string, from: number): ValueSpan {
  const start = afterSpace(text, from);
  if (text[start] === '"') return plainSpan(start, endOfString(text, start));
  if (text[start] === "{" || text[start] === "[") return structureSpan(text, start);
  return plainSpan(start, matchAt(PLAIN, text, start));
}

function plainSpan(start: number, end: number): ValueSpan {
  return { start, end, values: 1, units: end - start };
}

/** Takes some nanoseconds per character; a structure without an end extends to the end of the text. */
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

function afterSpace(text: string, start: number): number {
  return matchAt(SPACE, text, start);
}

function matchAt(pattern: RegExp, text: string, start: number): number {
  pattern.lastIndex = start;
  pattern.exec(text);
  return pattern.lastIndex;
}
