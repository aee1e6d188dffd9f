import { BerthError } from "../lib/errors.ts";
import type { RecordKind, Records } from "../lib/records.ts";

/** Attempts at an update before giving up to concurrent ones. */
const TRIES_MAX = 20;

const HOUR_MS = 3_600_000;
/** The key of the count. No other key begins with a slash. */
const USAGE_KEY = "/kept";
/** Records that expire within the same hour since the epoch. */
type HourlyUsage = readonly [hour: number, records: number, bytes: number];

/** Counts the stored records of one kind of each tenant, across processes, and their bytes. */
export class RecordUsage {
  readonly #records: Pick<Records, "now" | "record" | "putRecord">;
  readonly #kind: RecordKind;
  /** The last update of each tenant: updates are serialized, so that they do not conflict. */
  readonly #updates = new Map<string, Promise<void>>();

  constructor(records: Pick<Records, "now" | "record" | "putRecord">, kind: RecordKind) {
    this.#records = records;
    this.#kind = kind;
  }

  /** Includes records that expired within the hour. */
  async read(tenant: string): Promise<{ count: number; bytes: number }> {
    const sum = { count: 0, bytes: 0 };
    for (const [, count, bytes] of parseUsage(
      await this.#records.record(tenant, this.#kind, USAGE_KEY),
      this.#records.now(),
    )) {
      sum.count += count;
      sum.bytes += bytes;
    }
    return sum;
  }

  add(tenant: string, expiresAt: number, count: number, bytes: number): Promise<void> {
    const previous = this.#updates.get(tenant) ?? Promise.resolve();
    const update = previous.then(() => this.#addNow(tenant, expiresAt, count, bytes));
    const settled = update
      .catch(() => {})
      .then(() => void (this.#updates.get(tenant) === settled && this.#updates.delete(tenant)));
    this.#updates.set(tenant, settled);
    return update;
  }

  async #addNow(tenant: string, expiresAt: number, count: number, bytes: number): Promise<void> {
    const hour = Math.floor(expiresAt / HOUR_MS);
    for (let tries = 1; tries <= TRIES_MAX; tries++) {
      const record = await this.#records.record(tenant, this.#kind, USAGE_KEY);
      const current = parseUsage(record, this.#records.now());
      const [, oldCount, oldBytes] = current.find((each) => each[0] === hour) ?? [hour, 0, 0];
      const next = [...current.filter((each) => each[0] !== hour), [hour, oldCount + count, oldBytes + bytes] as const];
      const put = {
        value: JSON.stringify(next),
        expected: record?.revision ?? 0,
        expiresAt: (Math.max(...next.map((each) => each[0])) + 1) * HOUR_MS,
      };
      if ((await this.#records.putRecord(tenant, this.#kind, USAGE_KEY, put)) !== undefined) return;
    }
    throw new BerthError("store_failed", `the usage of its tenant was changed concurrently ${TRIES_MAX} times`);
  }
}

function parseUsage(record: { value: string } | undefined, now: number): HourlyUsage[] {
  const thisHour = Math.floor(now / HOUR_MS);
  return record ? (JSON.parse(record.value) as HourlyUsage[]).filter(([hour]) => hour >= thisHour) : [];
}
