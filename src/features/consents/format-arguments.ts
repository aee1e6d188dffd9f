import { endOfString } from "../../lib/json.ts";
/**
 * Formats the arguments of a call for the person who decides on it. They are untrusted, and may be rendered as
 * Markdown: nothing in them may hide, reorder or imitate anything. One line per member, as JSON with everything escaped
 * that is not plainly visible; the longest values are cut first, in the middle, with their length. The `schemaNames`,
 * those in the tool's schema, come first, so that other members cannot push them out.
 */
export function shownArguments(
  json: string,
  charactersMax: number,
  schemaNames: ReadonlySet<string> = new Set(),
): string {
  const { shown, others } = readMembers(json, schemaNames);
  const charactersPerValue = fairShare(
    shown.map(({ value }) => value.length),
    charactersMax,
  );
  const lines = shown.map(
    ({ name, value }) => `${visible(name, NAME_CHARACTERS)}: ${visible(value, charactersPerValue)}`,
  );
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
  /** The number of members that are not shown. */
  readonly others: number;
}

/** The members of an object in JSON, without parsing their values: there may be millions. */
function readMembers(json: string, schemaNames: ReadonlySet<string>): Members {
  const names = new Set(Array.from(schemaNames, (name) => JSON.stringify(name)));
  const first: Member[] = [];
  const rest: Member[] = [];
  let [depth, start, colon, count] = [0, -1, -1, 0];
  const end = (at: number): void => {
    if (colon > start) {
      count += 1;
      const name = json.slice(start, colon).trim();
      const members = names.has(name) ? first : rest;
      if (members.length < MEMBERS_SHOWN) members.push({ name, value: json.slice(colon + 1, at).trim() });
    }
    [start, colon] = [at + 1, -1];
  };
  for (let at = 0; at < json.length; at++) {
    switch (json.charCodeAt(at)) {
      case QUOTE:
        at = endOfString(json, at) - 1;
        break;
      case OPEN_OBJECT:
      case OPEN_LIST:
        if (++depth === 1) start = at + 1;
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

/** The characters per value so that all fit: short values take what they need and leave the rest to long ones. */
function fairShare(lengths: readonly number[], charactersMax: number): number {
  let left = charactersMax;
  const sorted = lengths.toSorted((a, b) => a - b);
  for (const [index, length] of sorted.entries()) {
    const share = Math.floor(left / (sorted.length - index));
    if (length > share) return share;
    left -= length;
  }
  return charactersMax;
}

/** A text with everything escaped that could be invisible, in at most about `max` characters: its start and its end. */
export function visible(text: string, max: number): string {
  const whole = escapeStart(text, max);
  if (whole.used === text.length) return whole.text;
  const head = escapeStart(text, Math.ceil((max * 2) / 3));
  const notice = `[… cut here: ${text.length} characters in all …]`;
  return head.text + notice + escapeEnd(text.slice(head.used), Math.floor(max / 3));
}

/** An escaped character takes up to six, so at worst a sixth fits. */
function escapeEnd(text: string, max: number): string {
  for (const units of [max, Math.floor(max / 6)]) {
    const end = units === 0 ? "" : text.slice(-units);
    const shown = escapeStart(end, max);
    if (shown.used === end.length) return shown.text;
  }
  return "";
}

function escapeStart(text: string, max: number): { readonly text: string; readonly used: number } {
  let [shown, used] = ["", 0];
  for (let [spaces, marks] = [0, 0]; used < text.length;) {
    const character = String.fromCodePoint(text.codePointAt(used)!);
    spaces = character === " " ? spaces + 1 : 0;
    marks = MARK.test(character) ? marks + 1 : 0;
    const isPlain = character === " " ? spaces <= SPACES_TOGETHER : marks <= MARKS_TOGETHER && !HIDING.test(character);
    const next = isPlain ? character : escapeUnits(character);
    if (shown.length + next.length > max) break;
    shown += next;
    used += character.length;
  }
  return { text: shown, used };
}

/** More spaces would push what follows out of sight. */
const SPACES_TOGETHER = 8;
/** More combining marks on one character would cover the text around it. */
const MARKS_TOGETHER = 3;
const MARK = /\p{M}/u;

/**
 * Matches what is invisible or moves visible text: control, format, private and unassigned characters, lone surrogates,
 * all spaces but the common one, and blank characters. Also matches the start of markup.
 */
const HIDING = /[\p{C}\p{Z}\p{Me}\p{Default_Ignorable_Code_Point}\u2800<>&`]/u;

function escapeUnits(character: string): string {
  return Array.from(
    { length: character.length },
    (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`,
  ).join("");
}
