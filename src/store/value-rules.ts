import { NESTING_MAX, nestsTooDeep } from "../lib/json.ts";
import type { Limits } from "../limits/limits.ts";
import { valueBounds } from "../limits/value-bounds.ts";
import type { ValueKind } from "./store.ts";

/** How every store checks, counts and bounds the values that servers store. */

/** For each kind, the limit on the total size of one server's keys and values. */
export const serverLimits = { state: "stateBytesPerServer" } as const satisfies Record<ValueKind, keyof Limits>;

/** Returns what is wrong with a key. Keys are displayed and written to URLs and files, so they must survive that. */
export function keyProblem(kind: ValueKind, key: string): string | undefined {
  const { valueKeyBytes } = valueBounds;
  if (key === "") return `a key of ${kind} must not be empty`;
  if (key.length > valueKeyBytes || Buffer.byteLength(key) > valueKeyBytes) {
    return `a key of ${kind} may have at most ${valueKeyBytes} bytes; this one begins with ${quote(key)}`;
  }
  if (UNPRINTABLE.test(key)) {
    return `a key of ${kind} must not contain control characters or lone surrogates: ${quote(key)}`;
  }
  return undefined;
}

/** A lone surrogate cannot be encoded as UTF-8. */
const UNPRINTABLE = /[\p{Cc}\p{Cs}]/u;

export function valueProblem(kind: ValueKind, isJson: boolean, bytes: Uint8Array): string | undefined {
  const { valueBytes } = valueBounds;
  if (bytes.length > valueBytes) {
    return `it has ${bytes.length} bytes, and a value of ${kind} may have at most ${valueBytes}; split it`;
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

function quote(key: string): string {
  return JSON.stringify(key.slice(0, QUOTED_UNITS));
}

const QUOTED_UNITS = 40;

export function valueSize(key: string, value: Uint8Array): number {
  return Buffer.byteLength(key) + value.length;
}

/** Returns the first text, by code points, after all texts with the prefix; undefined if there is none. */
export function prefixEnd(prefix: string): string | undefined {
  const points = Array.from(prefix, (character) => character.codePointAt(0)!);
  for (let last = points.pop(); last !== undefined; last = points.pop()) {
    if (last === LAST_POINT) continue;
    return String.fromCodePoint(...points, last === BEFORE_SURROGATES ? AFTER_SURROGATES : last + 1);
  }
  return undefined;
}

const LAST_POINT = 0x10_ff_ff;
const [BEFORE_SURROGATES, AFTER_SURROGATES] = [0xd7_ff, 0xe0_00];
