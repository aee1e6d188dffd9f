import { NESTING_MAX, nestsTooDeep } from "../lib/json.ts";
import type { Limits } from "../limits/limits.ts";
import { valueBounds } from "../limits/value-bounds.ts";
import type { ValueKind } from "./store.ts";

/** How every store checks, counts and bounds the values that servers store. */

/** The limit on the bytes of one server's keys and values, for each kind. */
export const serverLimits = { state: "stateBytesPerServer" } as const satisfies Record<ValueKind, keyof Limits>;

/** Returns what is wrong with a key. Keys are shown to people and written to URLs and files, so they must survive these. */
export function keyProblem(kind: ValueKind, key: string): string | undefined {
  const { valueKeyBytes } = valueBounds;
  if (key === "") return `a key of ${kind} is not empty`;
  if (key.length > valueKeyBytes || Buffer.byteLength(key) > valueKeyBytes) {
    return `a key of ${kind} has at most ${valueKeyBytes} bytes; this one begins with ${shown(key)}`;
  }
  if (UNPRINTABLE.test(key)) {
    return `a key of ${kind} has no control characters and no halves of characters, as ${shown(key)} has`;
  }
  return undefined;
}

/** Half of a surrogate pair cannot be written as UTF-8. */
const UNPRINTABLE = /[\p{Cc}\p{Cs}]/u;

export function valueProblem(kind: ValueKind, isJson: boolean, bytes: Uint8Array): string | undefined {
  const { valueBytes } = valueBounds;
  if (bytes.length > valueBytes) {
    return `it has ${bytes.length} bytes, and a value of ${kind} has at most ${valueBytes}; keep it in parts`;
  }
  return isJson ? jsonProblem(bytes) : undefined;
}

function jsonProblem(bytes: Uint8Array): string | undefined {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch {
    return "it is not JSON";
  }
  return nestsTooDeep(value, bytes.length) ? `it nests more than ${NESTING_MAX} levels deep` : undefined;
}

function shown(key: string): string {
  return JSON.stringify(key.slice(0, SHOWN_UNITS));
}

const SHOWN_UNITS = 40;

/** The bytes that a value counts for. */
export function sizeOf(key: string, value: Uint8Array): number {
  return Buffer.byteLength(key) + value.length;
}

/** Returns the first text, by code points, after all texts that begin with `prefix`; undefined if no text follows them. */
export function endOf(prefix: string): string | undefined {
  const points = Array.from(prefix, (character) => character.codePointAt(0)!);
  for (let last = points.pop(); last !== undefined; last = points.pop()) {
    if (last === LAST_POINT) continue;
    return String.fromCodePoint(...points, last === BEFORE_SURROGATES ? AFTER_SURROGATES : last + 1);
  }
  return undefined;
}

const LAST_POINT = 0x10_ff_ff;
const [BEFORE_SURROGATES, AFTER_SURROGATES] = [0xd7_ff, 0xe0_00];
