import { isObject } from "../../lib/json.ts";

/** Detects changes of text that models read. The comparison of schemas only asks what callers must send. */

/** Keywords whose values are text, whatever they contain. */
const TEXTS: ReadonlySet<string> = new Set("title description default examples $comment".split(" "));

/** Keywords whose members have names of their own, which are not keywords. */
const NAMES: ReadonlySet<string> = new Set(
  "properties patternProperties $defs definitions dependentSchemas".split(" "),
);

/** The longest name or value that counts as a word, in UTF-16 code units. */
const WORD_UNITS_MAX = 64;

/** ASCII without spaces: other scripts can write sentences without spaces. */
const WORD = /^[!-~]*$/;

/**
 * Returns the JSON pointer of the first text that was added, removed or changed: titles, descriptions, defaults,
 * examples and comments anywhere, and every name or value that is longer than a word. Short names and values are not
 * text, and neither are numbers.
 */
export function changedText(before: object, after: object): string | undefined {
  return findChange(before, after, "");
}

/** `keyword` is the keyword that a value belongs to; undefined for the members of `NAMES`. */
function findChange(before: unknown, after: unknown, pointer: string, keyword?: string): string | undefined {
  if (before === after) return undefined;
  const isText = keyword !== undefined && TEXTS.has(keyword);
  if ([before, after].some((value) => typeof value === "string" && (isText || !isWord(value)))) return pointer;
  const [old, now] = [listMembers(before), listMembers(after)];
  const hasNames = keyword !== undefined && NAMES.has(keyword);
  for (const key of new Set([...old.keys(), ...now.keys()])) {
    const at = `${pointer}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
    const isListed = Array.isArray(after ?? before);
    if (old.has(key) !== now.has(key) && ((isText && !isListed) || !isWord(key))) return at;
    const inner = isText || isListed ? keyword : hasNames ? undefined : key;
    const changed = findChange(old.get(key), now.get(key), at, inner);
    if (changed !== undefined) return changed;
  }
  return undefined;
}

function isWord(text: string): boolean {
  return text.length <= WORD_UNITS_MAX && WORD.test(text);
}

function listMembers(value: unknown): ReadonlyMap<string, unknown> {
  if (Array.isArray(value)) return new Map(value.map((item, index) => [String(index), item]));
  return new Map(isObject(value) ? Object.entries(value) : []);
}
