import { randomUUID } from "node:crypto";

/**
 * JSON numbers that JavaScript writes differently than it reads them, such as 1.0 and 12345678901234567890. Data that
 * passes through Berth from one program to another keeps them as they were written.
 */

/** True for JSON with such a number. */
export function hasInexactNumbers(json: string): boolean {
  if (!SUSPECT.test(json)) return false;
  for (const [token] of json.matchAll(TOKENS)) if (isInexact(token)) return true;
  return false;
}

/**
 * Most JSON has nothing like this, not even in a string: where a number may begin, a negative zero, a long number, one
 * with an exponent, and a fraction that begins with many zeros or ends with one.
 */
const SUSPECT = /(?:^|[\s:,[])(?:-0(?![\d.])|-?(?:[\d.]{16}|[\d.]+[eE]|\d+\.(?:0{6}|\d*0(?!\d))))/;
/** Strings, whose digits do not count, and numbers. Includes an unterminated string: no part is read twice. */
const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?$)|-?\d[\d.eE+-]*/gs;

function isInexact(token: string): boolean {
  return token[0] !== '"' && String(Number(token)) !== token;
}

export interface ExactJson {
  /** Each inexact number is a string that `stringify` recognizes. */
  readonly value: unknown;
  /** The JSON of any part of the value, with its numbers as they were. */
  readonly written: (part: unknown) => string;
}

/** Parses JSON so that it can be written again with the same numbers. Throws `SyntaxError` for invalid JSON. */
export function parseExactly(json: string): ExactJson {
  const value: unknown = JSON.parse(json);
  if (!hasInexactNumbers(json)) return { value, written: JSON.stringify };
  // The mark cannot be guessed, so no string of the input is taken for a number.
  const mark = randomUUID();
  const marked = json.replace(TOKENS, (token) => (isInexact(token) ? `"${mark}${token}"` : token));
  const MARKED = new RegExp(`"${mark}([^"]*)"`, "g");
  return { value: JSON.parse(marked), written: (part) => JSON.stringify(part).replace(MARKED, "$1") };
}
