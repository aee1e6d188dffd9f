import { BerthError } from "../lib/errors.ts";
import { NESTING_MAX, nestsTooDeep } from "../lib/json.ts";
import { fixed } from "../limits/fixed.ts";
import type { StateRoom, StateSize } from "./store.ts";

/** The limits of the state of servers, and how every store counts, bounds and sorts it. */
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

/** Returns what is wrong with a key. Keys are shown to people and written to URLs and files, so they must survive these. */
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

interface StateSums {
  readonly keys: number;
  readonly bytes: number;
}

/** The bytes of state that count. */
export function sizeOf(key: string, value: Uint8Array): number {
  return Buffer.byteLength(key) + value.length;
}

/** Returns which limit of its server a change would exceed, as the end of a sentence. */
export function whatIsFull(
  place: StateSums,
  more: StateSums,
  { keysPerServer, bytesPerServer }: StateRoom,
): string | undefined {
  const [keys, bytes] = [place.keys + more.keys, place.bytes + more.bytes];
  if (more.keys > 0 && keys > keysPerServer) {
    return `would keep ${keys} keys, and may keep ${keysPerServer}`;
  }
  if (more.bytes > 0 && bytes > bytesPerServer) {
    return `would keep ${bytes} bytes, and may keep ${bytesPerServer} (BERTH_STATE_BYTES_PER_SERVER)`;
  }
  return undefined;
}

export function serverFull(server: string, full: string): BerthError {
  return new BerthError("state_full", `the server "${server}" ${full}`);
}

export function tenantStateFull(bytes: number, bytesPerTenant: number): BerthError {
  const limit = `${bytesPerTenant} (BERTH_STATE_BYTES_PER_TENANT, or the tenant's own limit stateBytes)`;
  return new BerthError("state_full", `all servers of the tenant would keep ${bytes} bytes, and may keep ${limit}`);
}

/** Returns the first text by code points after all that begin with `prefix`; undefined if there is none. */
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

export function byServer(a: StateSize, b: StateSize): number {
  return a.server < b.server ? -1 : 1;
}
