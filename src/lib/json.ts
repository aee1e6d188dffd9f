/** Any value that JSON can represent. */
export type Json = null | boolean | number | string | Json[] | JsonObject;
export type JsonObject = { [key: string]: Json };

/** A JSON Schema 2020-12 document that is an object (the boolean forms are never produced by Berth). */
export type JsonSchema = { [keyword: string]: unknown };

/** The JSON of an object that is too long for the serving thread to parse, with its digest. */
export class JsonText {
  text: string;
  /** The digest of its canonical JSON: the length in bytes, and the SHA-256 in base64url. */
  digest: JsonDigest;
  /** The digest before any member was added. */
  readonly givenDigest: JsonDigest;

  constructor(text: string, digest: JsonDigest) {
    this.text = text;
    this.digest = this.givenDigest = digest;
  }

  /** The same object with these members added or replaced. */
  with(members: JsonObject): JsonText {
    const added = JSON.stringify(members).slice(1);
    const comma = this.text === "{}" || added === "}" ? "" : ",";
    return new JsonText(`${this.text.slice(0, -1)}${comma}${added}`, this.digest);
  }
}

/** Size and digest of canonical JSON, as UTF-8. */
export interface JsonDigest {
  readonly bytes: number;
  /** In hexadecimal. */
  readonly sha256: string;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function isStringArray(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((each) => typeof each === "string");
}

/** Parses JSON; undefined if it is invalid. */
export function tryParseJson(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

/** Parses a JSON object; undefined if it is invalid or not an object. */
export function tryParseObject(text: string): JsonObject | undefined {
  const value = tryParseJson(text);
  return isObject(value) ? value : undefined;
}

/** The most levels of lists and objects in external input: more would harm recursive readers and writers. */
export const NESTING_MAX = 256;

/**
 * The most levels of an entry of `mcps`, itself included. Entries are shown indented, which makes deeply nested JSON
 * many times as long.
 */
export const ENTRY_NESTING_MAX = 64;

/** True if a value, parsed from `units` UTF-16 code units, nests deeper than `NESTING_MAX`. */
export function nestsTooDeep(value: unknown, units: number): boolean {
  // Each level takes at least two code units, so most texts are too short to need the walk.
  return units > 2 * NESTING_MAX && isDeeper(value, NESTING_MAX);
}

/**
 * The number of values in a value, itself included; stops counting at `most` + 1. Infinite if the value has more than
 * `levels` levels of lists and objects.
 */
export function countValues(value: unknown, most: number, levels = Infinity): number {
  let count = 1;
  if (typeof value !== "object" || value === null) return count;
  if (levels === 0) return Infinity;
  for (const member of Array.isArray(value) ? (value as unknown[]) : Object.values(value)) {
    count += typeof member === "object" ? countValues(member, most - count, levels - 1) : 1;
    if (count > most) break;
  }
  return count;
}

/** True if JSON has more values than `most`, counting each comma and each list or object; stops there. */
export function hasMoreValues(json: string, most: number): boolean {
  let values = 0;
  for (let at = 0; at < json.length; at++) {
    const unit = json.charCodeAt(at);
    if (unit === QUOTE) at = endOfString(json, at) - 1;
    else if ((unit === COMMA || unit === BRACKET || unit === BRACE) && ++values > most) return true;
  }
  return false;
}

/** The offset after the closing quote, which has an even number of backslashes before it. */
export function endOfString(text: string, start: number): number {
  for (let quote = text.indexOf('"', start + 1); quote >= 0; quote = text.indexOf('"', quote + 1)) {
    let first = quote;
    while (text[first - 1] === "\\") first -= 1;
    if ((quote - first) % 2 === 0) return quote + 1;
  }
  return text.length;
}

const QUOTE = 34;
const COMMA = 44;
const BRACKET = 91;
const BRACE = 123;

/** True if a value has more levels. The recursion itself goes no deeper than `levels`. */
export function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (levels === 0) return true;
  const inner: unknown[] = Array.isArray(value) ? value : Object.values(value);
  return inner.some((each) => typeof each === "object" && isDeeper(each, levels - 1));
}

/** True if both have the same JSON with members in the same order; false for values that nest too deeply to compare. */
export function isSameJson(one: unknown, other: unknown, levels = NESTING_MAX): boolean {
  if (one === other) return true;
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) return false;
  if (levels === 0 || Array.isArray(one) !== Array.isArray(other)) return false;
  const [keys, otherKeys] = [Object.keys(one), Object.keys(other)];
  return (
    keys.length === otherKeys.length &&
    keys.every(
      (key, index) =>
        key === otherKeys[index] &&
        isSameJson((one as Record<string, unknown>)[key], (other as Record<string, unknown>)[key], levels - 1),
    )
  );
}

/** Writes a value that was parsed from JSON like `JSON.stringify`, however deeply it nests. */
export function jsonText(value: unknown): string {
  if (!isDeeper(value, NESTING_MAX)) return JSON.stringify(value);
  // The engine's writer recurses, and would overflow its stack.
  let text = "";
  const rest: (string | { readonly value: unknown })[] = [{ value }];
  for (let next = rest.pop(); next !== undefined; next = rest.pop()) {
    if (typeof next === "string") text += next;
    else if (Array.isArray(next.value)) {
      rest.push("]");
      for (let index = next.value.length - 1; index >= 0; index--) {
        rest.push({ value: next.value[index] }, index === 0 ? "" : ",");
      }
      text += "[";
    } else if (isObject(next.value)) {
      rest.push("}");
      const members = Object.entries(next.value);
      for (let index = members.length - 1; index >= 0; index--) {
        const [name, member] = members[index]!;
        rest.push({ value: member }, `${index === 0 ? "" : ","}${JSON.stringify(name)}:`);
      }
      text += "{";
    } else text += JSON.stringify(next.value);
  }
  return text;
}

/**
 * JSON for people: indented, unless it nests deeper than an entry may or the indentation would be too large. Equal
 * values with their members in the same order give equal text.
 */
export function indentedJson(value: unknown): string {
  return indentUnits(value, 0) <= INDENT_UNITS_MAX ? JSON.stringify(value, null, INDENT) : jsonText(value);
}

/** The most indentation of one text. With thousands of deep values, it outweighs everything else. */
const INDENT_UNITS_MAX = 1024 * 1024;
const INDENT = 2;

/** Stops counting when there are too many; infinite if it nests too deeply. */
function indentUnits(value: unknown, level: number): number {
  if (typeof value !== "object" || value === null) return 0;
  if (level === ENTRY_NESTING_MAX) return Infinity;
  const inner: unknown[] = Array.isArray(value) ? value : Object.values(value);
  let units = inner.length * (level + 1) * INDENT;
  for (const each of inner) {
    if (units > INDENT_UNITS_MAX) break;
    units += indentUnits(each, level + 1);
  }
  return units;
}
