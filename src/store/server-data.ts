import { nextTurn } from "../lib/event-loop.ts";
import type { Dialect, WrittenValue } from "./dialect.ts";
import { rows, type Steps } from "./steps.ts";
import { valueKinds, type FullCode, type ServerValue } from "./store.ts";
import { sizeOf } from "./value-rules.ts";

/**
 * The data that servers store: values and retained calls. The rows refer to a row of `server_data`, one for each server
 * and kind, which has their sums; so one update moves, or drops, all rows of a server or a tenant.
 */

/** How one kind of store runs statements on the data of servers. */
export interface ServerData {
  readonly dialect: Dialect;
  readonly read: <T>(steps: Steps<T>) => Promise<T>;
  /** Runs one transaction on a tenant's data. */
  readonly write: <T>(tenant: string, work: () => Steps<T>, how?: WriteSettings) => Promise<T>;
  /**
   * Within a transaction: throws `code` if the tenant would store more than `storedBytesMax`, of every kind. `stored` are
   * its `dataBytes`.
   */
  readonly checkRoom: (
    tenant: string,
    stored: DataBytes,
    added: number,
    storedBytesMax: number,
    code: FullCode,
  ) => Steps<void>;
  /** Removes what a committed change has left under an alias. If that fails, the next collection removes it. */
  readonly removeLeft: (alias: string) => Promise<void>;
}

export interface WriteSettings {
  /** False for what may be lost in a power cut. Default true. */
  readonly isDurable?: boolean;
  /** True for work that may call `checkRoom`. Default false. */
  readonly mayFill?: boolean;
}

/** The kinds of `server_data`. */
export const dataKinds = [...valueKinds, "calls"] as const;

export type DataBytes = Readonly<Record<(typeof dataKinds)[number], number>>;

/** The bytes that a tenant's servers store, by kind. */
export function* dataBytes(tenant: string): Steps<DataBytes> {
  const found = yield* rows<{ kind: keyof DataBytes; bytes: number }>(
    "SELECT kind, sum(bytes) AS bytes FROM server_data WHERE tenant = $1 GROUP BY kind",
    [tenant],
  );
  const sums = new Map(found.map(({ kind, bytes }) => [kind, bytes]));
  return Object.fromEntries(dataKinds.map((kind) => [kind, sums.get(kind) ?? 0])) as unknown as DataBytes;
}

/** The tables of rows, each with the column that may be long. */
export const serverTables = [
  { table: "server_value", long: "value" },
  { table: "retained_call", long: "body" },
] as const;

/** A value of a key that has none yet. */
export function newValue(value: ServerValue): WrittenValue {
  return { ...value, grows: { items: 1, bytes: sizeOf(value.key, value.value) } };
}

/** Repeats a removal until it removes fewer than `atOnce` rows, with other work in between. Returns the number of all. */
export async function inBatches(atOnce: number, remove: () => Promise<number>): Promise<number> {
  for (let total = 0; ;) {
    const removed = await remove();
    total += removed;
    if (removed < atOnce) return total;
    await nextTurn();
  }
}
