import { randomUUID } from "node:crypto";

/**
 * Numbers of JSON that JavaScript writes otherwise than it reads them, such as 1.0 and 12345678901234567890. What passes
 * from one program to another through Berth keeps them as they were written.
 */

/** True for JSON text with such a number. */
export function hasInexactNumbers(json: string): boolean {
  if (!SUSPECT.test(json)) return false;
  for (const [token] of json.matchAll(TOKENS)) if (isInexact(token)) return true;
  return false;
}

/**
 * Most texts have nothing like it, not even in a string: where a number may begin, a negative zero, a long number, one with
 * an exponent, and a fraction that begins with many zeros or ends with one.
 */
const SUSPECT = /(?:^|[\s:,[])(?:-0(?![\d.])|-?(?:[\d.]{16}|[\d.]+[eE]|\d+\.(?:0{6}|\d*0(?!\d))))/;
/** Strings, whose digits do not count, and numbers. A string without an end is one, too: no part is read twice. */
const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?$)|-?\d[\d.eE+-]*/gs;

function isInexact(token: string): boolean {
  return token[0] !== '"' && String(Number(token)) !== token;
}

export interface ExactJson {
  /** Each inexact number is a string that `written` recognizes. */
  readonly value: unknown;
  /** JSON text of any part of the value, with its numbers as they were. */
  readonly written: (part: unknown) => string;
}

/** Reads JSON so that it can be written again with the same numbers. Throws `SyntaxError` for other text. */
export function readExactly(json: string): ExactJson {
  const value: unknown = JSON.parse(json);
  if (!hasInexactNumbers(json)) return { value, written: JSON.stringify };
  // Nobody can guess it, so no string of the text is taken for a number.
  const mark = randomUUID();
  const marked = json.replace(TOKENS, (token) => (isInexact(token) ? `"${mark}${token}"` : token));
  const MARKED = new RegExp(`"${mark}([^"]*)"`, "g");
  return { value: JSON.parse(marked), written: (part) => JSON.stringify(part).replace(MARKED, "$1") };
}
