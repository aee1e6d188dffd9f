import { BerthError } from "../lib/errors.ts";
import type { RecordKind, Records } from "../lib/records.ts";

/** The most attempts at a change that loses against concurrent ones. */
const TRIES_MAX = 20;

const HOUR_MS = 3_600_000;
/** The key of the count. No other key begins with a slash. */
const KEPT_KEY = "/kept";
/** The records that expire within the same hour since the epoch. */
type KeptUntil = readonly [hour: number, records: number, bytes: number];

/** Counts the records of one kind that each tenant keeps, in whichever process, and their bytes. */
export class KeptCount {
  readonly #records: Pick<Records, "now" | "record" | "putRecord">;
  readonly #kind: RecordKind;
  /** The last count of each tenant in progress here: they run one after the other, so that they do not collide. */
  readonly #counting = new Map<string, Promise<void>>();

  constructor(records: Pick<Records, "now" | "record" | "putRecord">, kind: RecordKind) {
    this.#records = records;
    this.#kind = kind;
  }

  /** Includes records that expired within the hour. */
  async of(tenant: string): Promise<{ count: number; bytes: number }> {
    const sum = { count: 0, bytes: 0 };
    for (const [, count, bytes] of keptIn(
      await this.#records.record(tenant, this.#kind, KEPT_KEY),
      this.#records.now(),
    )) {
      sum.count += count;
      sum.bytes += bytes;
    }
    return sum;
  }

  add(tenant: string, expiresAt: number, count: number, bytes: number): Promise<void> {
    const before = this.#counting.get(tenant) ?? Promise.resolve();
    const counted = before.then(() => this.#addNow(tenant, expiresAt, count, bytes));
    const over = counted
      .catch(() => {})
      .then(() => void (this.#counting.get(tenant) === over && this.#counting.delete(tenant)));
    this.#counting.set(tenant, over);
    return counted;
  }

  async #addNow(tenant: string, expiresAt: number, count: number, bytes: number): Promise<void> {
    const hour = Math.floor(expiresAt / HOUR_MS);
    for (let tries = 1; tries <= TRIES_MAX; tries++) {
      const record = await this.#records.record(tenant, this.#kind, KEPT_KEY);
      const found = keptIn(record, this.#records.now());
      const [, countThen, bytesThen] = found.find((each) => each[0] === hour) ?? [hour, 0, 0];
      const kept = [...found.filter((each) => each[0] !== hour), [hour, countThen + count, bytesThen + bytes] as const];
      const put = {
        value: JSON.stringify(kept),
        expected: record?.revision ?? 0,
        expiresAt: (Math.max(...kept.map((each) => each[0])) + 1) * HOUR_MS,
      };
      if ((await this.#records.putRecord(tenant, this.#kind, KEPT_KEY, put)) !== undefined) return;
    }
    throw new BerthError("store_failed", `its tenant's stored data was counted ${TRIES_MAX} times meanwhile`);
  }
}

function keptIn(record: { value: string } | undefined, now: number): KeptUntil[] {
  const thisHour = Math.floor(now / HOUR_MS);
  return record ? (JSON.parse(record.value) as KeptUntil[]).filter(([hour]) => hour >= thisHour) : [];
}
