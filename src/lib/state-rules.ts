import { NESTING_MAX, nestsTooDeep } from "./json.ts";

/** The rules of state that a server keeps. Each function returns a sentence about what is wrong; undefined if nothing is. */
interface KeyLimits {
  readonly stateKeyBytes: number;
}

interface ValueLimits {
  readonly stateValueBytes: number;
}

/** Keys are shown to people and stand in addresses and files, so they are text that survives all of these. */
export function stateKeyProblem(key: string, { stateKeyBytes }: KeyLimits): string | undefined {
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

export function stateValueProblem(
  { isJson, bytes }: { readonly isJson: boolean; readonly bytes: Uint8Array },
  { stateValueBytes }: ValueLimits,
): string | undefined {
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
