import { positionAt } from "../lib/code-frame.ts";
import { BerthError } from "../lib/errors.ts";
import { isObject } from "../lib/json.ts";

/** A part of a configuration file; `path` is the list of names that leads to it. */
export type FilePart =
  /** A member of an object; the last name is that of the member. */
  | { readonly path: readonly [string, ...string[]]; readonly value: Readonly<Record<string, unknown>> }
  /** An element of a list, once; the path leads to the list. */
  | { readonly path: readonly [string, ...string[]]; readonly element: string | Readonly<Record<string, unknown>> };

/**
 * Edits files of one format. Everything outside of the part is preserved byte for byte. Each function takes the file's
 * name, for errors, and its text, and throws `client_file_invalid`, with line and column, for a text that it cannot
 * read or edit.
 */
export interface FileFormat {
  /** The text of an empty file. */
  readonly empty: string;
  value(file: string, text: string): unknown;
  /** The text with the part, which replaces one of the same name. */
  add(file: string, text: string, part: FilePart): string;
  /** The text without the part, and without objects and lists that become empty; "" if nothing is left. */
  remove(file: string, text: string, part: FilePart): string;
  /** The values of strings, which may be secrets, as ranges of the text in UTF-16 code units, in order. */
  strings(file: string, text: string): (readonly [from: number, to: number])[];
}

/** The value at a path; undefined if there is none. */
export function valueAt(value: unknown, path: readonly string[]): unknown {
  let inner = value;
  for (const name of path) inner = isObject(inner) && Object.hasOwn(inner, name) ? inner[name] : undefined;
  return inner;
}

/** Quotes nothing from the file: its lines may contain secrets. */
export function faultAt(file: string, text: string, offset: number, reason: string): BerthError {
  const { line, column } = positionAt(text, offset);
  return new BerthError("client_file_invalid", `${file}:${line}:${column}: ${reason}`);
}

export function lineEnding(text: string): string {
  return text.includes("\r\n") ? "\r\n" : "\n";
}
