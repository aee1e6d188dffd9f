import { yieldToCalls } from "../lib/event-loop.ts";
import type { Dialect, WrittenValue } from "./dialect.ts";
import { rows, type Steps } from "./steps.ts";
import { valueKinds, type StorageFullCode, type ServerValue } from "./store.ts";
import { valueSize } from "./value-rules.ts";

/**
 * The data that servers store: values and retained calls. Their rows refer to a row of `server_data`, one per server
 * and kind, which contains sums. A single update therefore moves or drops all rows of a server or tenant.
 */

/** How one kind of store executes statements on the data of servers. */
export interface ServerData {
  readonly dialect: Dialect;
  readonly read: <T>(steps: Steps<T>) => Promise<T>;
  /** Runs one transaction on a tenant's data. */
  readonly write: <T>(tenant: string, work: () => Steps<T>, how?: WriteSettings) => Promise<T>;
  /**
   * Within a transaction: throws `code` if the tenant would store more than `storedBytesMax` of all kinds together.
   * `stored` is the result of `dataBytes`.
   */
  readonly checkQuota: (
    tenant: string,
    stored: DataBytes,
    added: number,
    storedBytesMax: number,
    code: StorageFullCode,
  ) => Steps<void>;
  /** Removes what a committed change has moved to an alias. If that fails, the next collection removes it. */
  readonly removeAliasData: (alias: string) => Promise<void>;
}

export interface WriteSettings {
  /** False if the write may be lost in a power cut. Default: true. */
  readonly isDurable?: boolean;
  /** True if the work may call `checkQuota`. Default: false. */
  readonly mayExceedQuota?: boolean;
}

export const dataKinds = [...valueKinds, "calls"] as const;

export type DataBytes = Readonly<Record<(typeof dataKinds)[number], number>>;

/** The bytes that a tenant's servers store, by kind. */
export function* dataBytes(tenant: string): Steps<DataBytes> {
  const totals = yield* rows<{ kind: keyof DataBytes; bytes: number }>(
    "SELECT kind, sum(bytes) AS bytes FROM server_data WHERE tenant = $1 GROUP BY kind",
    [tenant],
  );
  const sums = new Map(totals.map(({ kind, bytes }) => [kind, bytes]));
  return Object.fromEntries(dataKinds.map((kind) => [kind, sums.get(kind) ?? 0])) as unknown as DataBytes;
}

/** The tables of the rows, each with its column of potentially long values. */
export const serverTables = [
  { table: "server_value", long: "value" },
  { table: "retained_call", long: "body" },
] as const;

/** A value for a key that has none yet. */
export function newValue(value: ServerValue): WrittenValue {
  return { ...value, growth: { items: 1, bytes: valueSize(value.key, value.value) } };
}

/** Repeats a removal until it removes fewer than `atOnce` rows, yielding to other work. Returns the total number. */
export async function inBatches(atOnce: number, remove: () => Promise<number>): Promise<number> {
  for (let total = 0; ;) {
    const removed = await remove();
    total += removed;
    if (removed < atOnce) return total;
    await yieldToCalls();
  }
}
