import { BerthError } from "../lib/errors.ts";
import type { StateRoom, StateSize } from "./store.ts";

/** How state is counted, bounded and sorted in every store. */

interface StateSums {
  readonly keys: number;
  readonly bytes: number;
}

/** The bytes of state that count. */
export function sizeOf(key: string, value: Uint8Array): number {
  return Buffer.byteLength(key) + value.length;
}

/** The end of a sentence about a server that has no room for more; undefined when it has. */
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

/** The first text by code points after all that begin with `prefix`; undefined where there is none. */
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
