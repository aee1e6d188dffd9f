import { tryParseJson } from "../../lib/json.ts";
import { BrokenAnswer } from "./messages.ts";

/**
 * Finds JSON objects and lists in text that is not a single JSON value: printed over several lines, after other text,
 * or several in one line. Linear in the length of the text.
 */
export class JsonScanner {
  /** The beginning of an unfinished value. */
  #unfinished = "";
  #depth = 0;

  get isOpen(): boolean {
    return this.#depth > 0;
  }

  /** The values that end in this line; an answer that is not valid JSON becomes a `BrokenAnswer`. */
  push(line: string): unknown[] {
    const values: unknown[] = [];
    let start = 0;
    let isInString = false;
    let depth = this.#depth;
    for (let at = 0; at < line.length; at++) {
      const code = line.charCodeAt(at);
      if (isInString) {
        if (code === BACKSLASH) at += 1;
        else if (code === QUOTE) isInString = false;
      } else if (code === OPEN_BRACE || code === OPEN_BRACKET) {
        if (depth++ === 0) start = at;
      } else if (depth === 0) continue;
      else if (code === QUOTE) isInString = true;
      else if ((code === CLOSE_BRACE || code === CLOSE_BRACKET) && --depth === 0) {
        const text = this.#unfinished + line.slice(start, at + 1);
        const value = tryParseJson(text) ?? brokenAnswers(text)[0];
        if (value !== undefined) values.push(value);
        this.#unfinished = "";
      }
    }
    // Text before a message may have brackets of its own.
    const begins = depth > 0 && values.length === 0 ? line.indexOf('{"jsonrpc"') : -1;
    if (begins > start) {
      this.reset();
      return this.push(line.slice(begins));
    }
    // JSON strings never continue on another line.
    this.#depth = isInString ? 0 : depth;
    const rest = this.#depth > 0 ? `${this.#unfinished}${line.slice(start)}\n` : "";
    if (isInString) values.push(...brokenAnswers(this.#unfinished + line.slice(start)));
    this.#unfinished = rest.length > UNFINISHED_UNITS ? "" : rest;
    if (this.#unfinished === "") this.#depth = 0;
    return values;
  }

  reset(): void {
    this.#unfinished = "";
    this.#depth = 0;
  }
}

/** The answer that a text appears to be, if it names its request. */
export function brokenAnswers(text: string): BrokenAnswer[] {
  const beginning = text.slice(0, SEARCHED_UNITS);
  const id = ID.exec(beginning)?.[1] ?? ID.exec(text.slice(-SEARCHED_UNITS))?.[1];
  return id !== undefined && ANSWER.test(beginning) ? [new BrokenAnswer(Number(id), text)] : [];
}

const ID = /["']?\bid["']?\s{0,9}:\s{0,9}["']?(\d{1,15})\b/;
const ANSWER = /["']?\b(?:jsonrpc|result|error)["']?\s{0,9}:/;
const SEARCHED_UNITS = 1_000;
/** Maximum length of a value that is printed over several lines. */
const UNFINISHED_UNITS = 1024 * 1024;
const QUOTE = 34;
const OPEN_BRACKET = 91;
const BACKSLASH = 92;
const CLOSE_BRACKET = 93;
const OPEN_BRACE = 123;
const CLOSE_BRACE = 125;
