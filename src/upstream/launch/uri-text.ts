import type { Problem } from "../../lib/problem.ts";

/** A piece of the URI and its offset, from 0. */
export interface UriPiece {
  readonly text: string;
  readonly offset: number;
}

export interface QueryPair {
  readonly key: string;
  readonly value: string;
  readonly keyOffset: number;
  readonly valueOffset: number;
}

/** Collects the problems of one URI, each with its position. */
export class UriProblems {
  readonly list: Problem[] = [];
  readonly #uri: string;

  constructor(uri: string) {
    this.#uri = uri;
  }

  add(code: string, offset: number, message: string): undefined {
    if (this.list.length < PROBLEMS_MAX) this.list.push(problemAt(this.#uri, code, offset, message));
    return undefined;
  }
}

/** The first problems suffice for one round of corrections. */
const PROBLEMS_MAX = 50;
/** The length of the excerpt of a longer URI, before and after the position of a problem. */
const FRAME_UNITS = 200;

export function problemAt(uri: string, code: string, offset: number, message: string): Problem {
  const start = uri.length > 2 * FRAME_UNITS ? Math.max(0, offset - FRAME_UNITS) : 0;
  const shown = uri.slice(start, start + 2 * FRAME_UNITS);
  return {
    code,
    message,
    severity: "error",
    line: 1,
    column: offset + 1,
    frame: `${shown}\n${" ".repeat(offset - start)}^`,
  };
}

/** More than any real URI has. */
const PAIRS_MAX = 1_000;

/** Decodes percent-encoding; undefined if it is invalid, with the problem reported. */
export function decodePiece(
  { text, offset }: UriPiece,
  problems: UriProblems,
  plusIsSpace = false,
): string | undefined {
  const broken = /%(?![0-9A-Fa-f]{2})/.exec(text);
  if (broken) {
    return problems.add(
      "bad-percent-encoding",
      offset + broken.index,
      `"${text.slice(broken.index, broken.index + 3)}" is not percent-encoding; write a literal % as %25.`,
    );
  }
  try {
    const decoded = decodeURIComponent(plusIsSpace ? text.replaceAll("+", " ") : text);
    if (!decoded.includes("\0")) return decoded;
    return problems.add("bad-character", offset, "A zero byte (%00) cannot be passed to a program.");
  } catch {
    return problems.add("bad-percent-encoding", offset, `The percent-encoded bytes in "${text}" are not UTF-8.`);
  }
}

/** `a=1&b=2`, decoded as web forms are: `+` is a space, a literal plus is `%2B`. */
export function splitQuery({ text, offset }: UriPiece, problems: UriProblems): QueryPair[] {
  const pairs: QueryPair[] = [];
  let at = offset;
  for (const part of text.split("&", PAIRS_MAX + 1)) {
    if (pairs.length === PAIRS_MAX) {
      problems.add("too-many", at, `More than ${PAIRS_MAX} names and values.`);
      break;
    }
    const equals = part.indexOf("=");
    const key = equals === -1 ? part : part.slice(0, equals);
    const valueOffset = at + key.length + 1;
    if (part === "") {
      if (text !== "") problems.add("empty-pair", at, "There is nothing between these two &.");
    } else if (equals === -1) {
      problems.add("missing-value", at, `"${part}" has no value; write ${part}=… (an empty one is ${part}=).`);
    } else if (key === "") {
      problems.add("missing-key", at, "This value has no name before its =.");
    } else {
      const decodedKey = decodePiece({ text: key, offset: at }, problems, true);
      const value = decodePiece({ text: part.slice(equals + 1), offset: valueOffset }, problems, true);
      if (decodedKey !== undefined && value !== undefined) {
        pairs.push({ key: decodedKey, value, keyOffset: at, valueOffset });
      }
    }
    at += part.length + 1;
  }
  return pairs;
}
