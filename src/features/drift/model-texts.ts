import { isObject } from "../../lib/json.ts";

/**
 * Tells if what a model reads of a tool or a prompt is the same in another version of it. A leaf, apart from the
 * comparison of schemas: that one asks what callers must send, and looks only at the parts of a schema that say so.
 */

/** Keywords whose values are read as text, whatever stands in them. */
const TEXTS: ReadonlySet<string> = new Set("title description default examples $comment".split(" "));

/** Keywords whose members have names of their own, which are no keywords. */
const NAMES: ReadonlySet<string> = new Set(
  "properties patternProperties $defs definitions dependentSchemas".split(" "),
);

/** The most characters of a name or a value that says no more than a name does. */
const WORD_UNITS_MAX = 64;

/** Without spaces, and without letters of scripts that need none. */
const WORD = /^[!-~]*$/;

/**
 * Returns the JSON pointer of the first text that is new, gone or changed: titles, descriptions, defaults, examples and
 * comments, wherever they stand, and every name or value that is longer than a word. Short names and values are no text,
 * and neither are numbers.
 */
export function changedText(before: object, after: object): string | undefined {
  return changedIn(before, after, "");
}

/** `under` names the keyword that a value belongs to; undefined for the members of `NAMES`. */
function changedIn(before: unknown, after: unknown, pointer: string, under?: string): string | undefined {
  if (before === after) return undefined;
  const isText = under !== undefined && TEXTS.has(under);
  if ([before, after].some((value) => typeof value === "string" && (isText || !isWord(value)))) return pointer;
  const [old, now] = [membersOf(before), membersOf(after)];
  const hasNames = under !== undefined && NAMES.has(under);
  for (const key of new Set([...old.keys(), ...now.keys()])) {
    const at = `${pointer}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
    const isListed = Array.isArray(after ?? before);
    if (old.has(key) !== now.has(key) && ((isText && !isListed) || !isWord(key))) return at;
    const inner = isText || isListed ? under : hasNames ? undefined : key;
    const changed = changedIn(old.get(key), now.get(key), at, inner);
    if (changed !== undefined) return changed;
  }
  return undefined;
}

function isWord(text: string): boolean {
  return text.length <= WORD_UNITS_MAX && WORD.test(text);
}

function membersOf(value: unknown): ReadonlyMap<string, unknown> {
  if (Array.isArray(value)) return new Map(value.map((item, index) => [String(index), item]));
  return new Map(isObject(value) ? Object.entries(value) : []);
}
