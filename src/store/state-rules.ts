import { NESTING_MAX, nestsTooDeep } from "../lib/json.ts";
import { fixed } from "../limits/fixed.ts";

/** The rules of state that a server keeps. Each function returns a sentence about what is wrong; undefined if nothing is. */
export const stateBounds = fixed({
  /** A key of the state that a server stores, and the value under it. */
  stateKeyBytes: 512,
  stateValueBytes: 64 * 1024,
  /** Keys of one server's state. */
  stateKeysPerServer: 100_000,
  /** Keys in one answer to a list of state, and the bytes of the values that it may hold. */
  stateListKeys: 1_000,
  stateListBytes: 256 * 1024,
});

/** Keys are shown to people and stand in addresses and files, so they are text that survives all of these. */
export function stateKeyProblem(key: string): string | undefined {
  const { stateKeyBytes } = stateBounds;
  if (key === "") return "a key of state is not empty";
  if (key.length > stateKeyBytes || Buffer.byteLength(key) > stateKeyBytes) {
    return `a key of state has at most ${stateKeyBytes} bytes; this one begins with ${shown(key)}`;
  }
  if (UNPRINTABLE.test(key)) {
    return `a key of state has no control characters and no halves of characters, as ${shown(key)} has`;
  }
  return undefined;
}

/** Half of a surrogate pair cannot be written as UTF-8. */
const UNPRINTABLE = /[\p{Cc}\p{Cs}]/u;

export function stateValueProblem({
  isJson,
  bytes,
}: {
  readonly isJson: boolean;
  readonly bytes: Uint8Array;
}): string | undefined {
  const { stateValueBytes } = stateBounds;
  if (bytes.length > stateValueBytes) {
    return `it has ${bytes.length} bytes, and a value of state has at most ${stateValueBytes}; keep it in parts`;
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
