import { turnTaker } from "../../lib/turns.ts";

/**
 * Where the members of a JSON object stand in its text. What is inside of them is passed over and not read: in a
 * configuration of thousands of servers a parser's tree of it all would hold up every call for as long as it is made.
 * Even so, calls have turns meanwhile. For texts that are JSON; of any other it says nothing of use.
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
  /** How many values are in it, itself among them. */
  readonly values: number;
  /** How many UTF-16 units it has without the white space between values. */
  readonly units: number;
}

export interface ObjectSpan extends Span {
  readonly members: readonly MemberSpan[];
}

/**
 * The object that begins at `start` or, after white space, behind it; undefined when something else does. No more is
 * read than one member more than `most`.
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

/** How much of an object is read. */
export interface ObjectBounds {
  readonly members: number;
  /** Values in one member, its own value among them. */
  readonly values: number;
  /** UTF-16 units of one member's value, without the white space between values. */
  readonly units: number;
  /** Values in all of it. */
  readonly allValues: number;
}

/** Names of members that have more values or units, or that the object has more members or values. */
export type TooMuch = readonly string[] | "all";

/**
 * As `JSON.parse`, member by member of the object that a long text is: calls of others have turns between two of them.
 * Throws for what is no JSON, and gives null for a long text that is no object. A member with too many values or units is null,
 * and of too much in all nothing is read: either is found before anything is made of it. A text that takes no turns is
 * read whole, whatever is in it.
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
  const members: [string, unknown][] = [];
  const tooMuch: string[] = [];
  const takeTurns = turnTaker();
  let end = span.start + 1;
  for (const [index, { name, value, ...member }] of span.members.entries()) {
    await takeTurns();
    // What stands between two members shows whether it is JSON at all.
    if (text.slice(end, member.start).trim() !== (index === 0 ? "" : ",")) throw unexpectedAt(end);
    end = member.end;
    if (value.values > bounds.values || value.units > bounds.units) {
      tooMuch.push(name);
      members.push([name, null]);
    } else {
      const read = JSON.parse(`{${text.slice(member.start, end)}}`) as Record<string, unknown>;
      members.push([name, read[name]]);
    }
  }
  if (text.slice(end).trim() !== "}") throw unexpectedAt(end);
  return { value: Object.fromEntries(members), ...(tooMuch.length > 0 && { tooMuch }) };
}

/** As `ObjectBounds` count them, of a whole text. */
export function unitsOf(text: string): number {
  return valueSpan(text, 0).units;
}

function unexpectedAt(offset: number): SyntaxError {
  return new SyntaxError(`Unexpected text at position ${offset}`);
}

/** A text that is parsed in a millisecond or two. */
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

/** Takes some nanoseconds a character: it passes over whatever has no end. */
function structureSpan(text: string, start: number): ValueSpan {
  let depth = 0;
  let values = 1;
  let spaces = 0;
  /** What has just begun has nothing in it yet. */
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

/** After the quote that ends it: one with an even number of backslashes before it. */
function endOfString(text: string, start: number): number {
  for (let quote = text.indexOf('"', start + 1); quote >= 0; quote = text.indexOf('"', quote + 1)) {
    let first = quote;
    while (text[first - 1] === "\\") first -= 1;
    if ((quote - first) % 2 === 0) return quote + 1;
  }
  return text.length;
}

function afterSpace(text: string, start: number): number {
  return matchAt(SPACE, text, start);
}

function matchAt(pattern: RegExp, text: string, start: number): number {
  pattern.lastIndex = start;
  pattern.exec(text);
  return pattern.lastIndex;
}
