import { endOfString } from "../../lib/json.ts";
/**
 * Shows the arguments of a call to the person who decides on it. They are a stranger's, and whatever shows them may read
 * Markdown: nothing in them may hide, reorder or imitate anything. One line for each member, as JSON in which everything
 * that is not plainly visible is escaped; the longest values are cut first, in their middle, and say how long they are.
 * The `known` names, those of the tool's schema, come first: others, however many, push none of them out.
 */
export function shownArguments(json: string, charactersMax: number, known: ReadonlySet<string> = new Set()): string {
  const { shown, others } = membersOf(json, known);
  const room = roomOf(
    shown.map(({ value }) => value.length),
    charactersMax,
  );
  const lines = shown.map(({ name, value }) => `${visible(name, NAME_CHARACTERS)}: ${visible(value, room)}`);
  if (others > 0) lines.push(`… and ${others} more, which are not shown`);
  return lines.length === 0 ? "(none)" : lines.join("\n");
}

const MEMBERS_SHOWN = 50;
const NAME_CHARACTERS = 100;

interface Member {
  /** Both as JSON. */
  readonly name: string;
  readonly value: string;
}

interface Members {
  readonly shown: readonly Member[];
  /** The number of those that are not shown. */
  readonly others: number;
}

/** The members of an object in JSON, without reading their values: they may be millions. */
function membersOf(json: string, known: ReadonlySet<string>): Members {
  const names = new Set(Array.from(known, (name) => JSON.stringify(name)));
  const first: Member[] = [];
  const rest: Member[] = [];
  let [depth, begun, colon, count] = [0, -1, -1, 0];
  const end = (at: number): void => {
    if (colon > begun) {
      count += 1;
      const name = json.slice(begun, colon).trim();
      const members = names.has(name) ? first : rest;
      if (members.length < MEMBERS_SHOWN) members.push({ name, value: json.slice(colon + 1, at).trim() });
    }
    [begun, colon] = [at + 1, -1];
  };
  for (let at = 0; at < json.length; at++) {
    switch (json.charCodeAt(at)) {
      case QUOTE:
        at = endOfString(json, at) - 1;
        break;
      case OPEN_OBJECT:
      case OPEN_LIST:
        if (++depth === 1) begun = at + 1;
        break;
      case CLOSE_OBJECT:
      case CLOSE_LIST:
        if (--depth === 0) end(at);
        break;
      case COLON:
        if (depth === 1 && colon < 0) colon = at;
        break;
      case COMMA:
        if (depth === 1) end(at);
        break;
    }
  }
  const shown = [...first, ...rest].slice(0, MEMBERS_SHOWN);
  return { shown, others: count - shown.length };
}

const [QUOTE, COLON, COMMA] = [0x22, 0x3a, 0x2c];
const [OPEN_OBJECT, CLOSE_OBJECT, OPEN_LIST, CLOSE_LIST] = [0x7b, 0x7d, 0x5b, 0x5d];

/** The room for each value so that all fit: short ones take what they need, and leave the rest to the long ones. */
function roomOf(lengths: readonly number[], charactersMax: number): number {
  let left = charactersMax;
  const sorted = lengths.toSorted((a, b) => a - b);
  for (const [index, length] of sorted.entries()) {
    const share = Math.floor(left / (sorted.length - index));
    if (length > share) return share;
    left -= length;
  }
  return charactersMax;
}

/** A text with everything escaped that could hide, in at most about `room` characters: its beginning and its end. */
export function visible(text: string, room: number): string {
  const whole = escaped(text, room);
  if (whole.used === text.length) return whole.text;
  const head = escaped(text, Math.ceil((room * 2) / 3));
  const said = `[… cut here: ${text.length} characters in all …]`;
  return head.text + said + endOf(text.slice(head.used), Math.floor(room / 3));
}

/** An escaped character takes up to six, so at worst a sixth fits. */
function endOf(text: string, room: number): string {
  for (const units of [room, Math.floor(room / 6)]) {
    const end = units === 0 ? "" : text.slice(-units);
    const shown = escaped(end, room);
    if (shown.used === end.length) return shown.text;
  }
  return "";
}

function escaped(text: string, room: number): { readonly text: string; readonly used: number } {
  let [shown, used] = ["", 0];
  for (let [spaces, marks] = [0, 0]; used < text.length;) {
    const letter = String.fromCodePoint(text.codePointAt(used)!);
    spaces = letter === " " ? spaces + 1 : 0;
    marks = MARK.test(letter) ? marks + 1 : 0;
    const isPlain = letter === " " ? spaces <= SPACES_TOGETHER : marks <= MARKS_TOGETHER && !HIDING.test(letter);
    const next = isPlain ? letter : unitsOf(letter);
    if (shown.length + next.length > room) break;
    shown += next;
    used += letter.length;
  }
  return { text: shown, used };
}

/** More of them would push what follows out of sight. */
const SPACES_TOGETHER = 8;
/** More of them on one letter would cover what stands around it. */
const MARKS_TOGETHER = 3;
const MARK = /\p{M}/u;

/**
 * Matches what is not seen, or moves what is seen: control, format, private and unassigned characters, lone surrogates, all
 * spaces but the common one, and what looks blank. And what markup begins with.
 */
const HIDING = /[\p{C}\p{Z}\p{Me}\p{Default_Ignorable_Code_Point}\u2800<>&`]/u;

function unitsOf(letter: string): string {
  return Array.from(
    { length: letter.length },
    (_, at) => `\\u${letter.charCodeAt(at).toString(16).padStart(4, "0")}`,
  ).join("");
}
