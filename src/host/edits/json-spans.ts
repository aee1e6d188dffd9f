import { turnTaker } from "../../turns.ts";

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
  readonly value: Span;
}

export interface ObjectSpan extends Span {
  readonly members: readonly MemberSpan[];
}

/** The object that begins at `start` or, after white space, behind it; undefined when something else does. */
export async function objectSpan(text: string, start: number): Promise<ObjectSpan | undefined> {
  const open = afterSpace(text, start);
  if (text[open] !== "{") return undefined;
  const members: MemberSpan[] = [];
  let at = afterSpace(text, open + 1);
  const takeTurns = turnTaker();
  while (text[at] === '"') {
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

/**
 * As `JSON.parse`, member by member of an object in a long text: calls of others have turns between two of them. Throws
 * what `JSON.parse` throws.
 */
export async function parseInTurns(text: string): Promise<unknown> {
  const span = text.length > AT_ONCE_UNITS ? await objectSpan(text, 0) : undefined;
  if (!span) return JSON.parse(text);
  const members: [string, unknown][] = [];
  const takeTurns = turnTaker();
  let end = span.start + 1;
  for (const [index, member] of span.members.entries()) {
    await takeTurns();
    // What stands between two members shows whether it is JSON at all.
    if (text.slice(end, member.start).trim() !== (index === 0 ? "" : ",")) return JSON.parse(text);
    const read = JSON.parse(`{${text.slice(member.start, member.end)}}`) as Record<string, unknown>;
    members.push([member.name, read[member.name]]);
    end = member.end;
  }
  if (text.slice(end).trim() !== "}") return JSON.parse(text);
  return Object.fromEntries(members);
}

/** A text that is parsed in a millisecond or two. */
const AT_ONCE_UNITS = 64 * 1024;
const SPACE = /[ \t\n\r]*/y;
/** A number, or a word such as `null`. */
const PLAIN = /[^\s,\]}]*/y;
const MARKS = /["{}[\]]/g;

function nameIn(key: string): string {
  return key.includes("\\") ? (JSON.parse(key) as string) : key.slice(1, -1);
}

function valueSpan(text: string, from: number): Span {
  const start = afterSpace(text, from);
  if (text[start] === '"') return { start, end: endOfString(text, start) };
  if (text[start] === "{" || text[start] === "[") return { start, end: endOfStructure(text, start) };
  return { start, end: matchAt(PLAIN, text, start) };
}

function endOfStructure(text: string, start: number): number {
  MARKS.lastIndex = start;
  let depth = 0;
  for (let mark = MARKS.exec(text); mark; mark = MARKS.exec(text)) {
    if (mark[0] === '"') {
      MARKS.lastIndex = endOfString(text, mark.index);
      continue;
    }
    depth += mark[0] === "{" || mark[0] === "[" ? 1 : -1;
    if (depth === 0) return MARKS.lastIndex;
  }
  return text.length;
}

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
