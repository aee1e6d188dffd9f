import { randomUUID } from "node:crypto";
import { nextTurn } from "../lib/event-loop.ts";
import type { KeyedRecordPut, RecordKind, RecordPut, Records } from "../lib/records.ts";

/** The length of a part in UTF-16 units: the store writes or reads it in about a millisecond. */
const PART_UNITS = 128 * 1024;
/** The number of obsolete parts that are removed at a time. */
const REMOVED_AT_ONCE = 8;
/** Begins the reference to a value that is stored in parts. No value is like it: they are JSON, or begin with some. */
const MARK = "parts ";

/**
 * Records whose values may be as long as an answer: a long one is written and read in parts, each a record of its own,
 * taking turns with calls. The record itself is written last and references its parts, so that a value changes as a
 * whole. Parts that are not removed expire with the record.
 */
export function inParts(records: Records): Records {
  return {
    now: () => records.now(),

    async record(tenant, kind, key) {
      for (;;) {
        const found = await records.record(tenant, kind, key);
        const parts = found && partsIn(found.value);
        if (!parts) return found;
        const value = await joined(tenant, kind, key, parts);
        if (value !== undefined) return { ...found, value };
        // Its parts vanished while it was read: it was replaced, or has expired.
        const now = await records.record(tenant, kind, key);
        if (now?.revision === found.revision) return undefined;
      }
    },

    async putRecord(tenant, kind, key, put) {
      if (isPlain(put)) return records.putRecord(tenant, kind, key, put);
      const [whole] = await prepared(tenant, kind, [{ key, ...put }]);
      const revision = await records.putRecord(tenant, kind, key, whole!.put);
      await settle(tenant, kind, [whole!], [revision]);
      return revision;
    },

    async putRecords(tenant, kind, puts) {
      if (puts.every(isPlain)) return records.putRecords(tenant, kind, puts);
      const all = await prepared(tenant, kind, puts);
      const revisions = await records.putRecords(
        tenant,
        kind,
        all.map(({ put }) => put),
      );
      await settle(tenant, kind, all, revisions);
      return revisions;
    },
  };

  async function joined(tenant: string, kind: RecordKind, key: string, parts: Parts): Promise<string | undefined> {
    let value = "";
    for (let number = 0; number < parts.count; number++) {
      const part = await records.record(tenant, kind, partKey(key, parts, number));
      if (!part) return undefined;
      value += part.value;
      await nextTurn();
    }
    return value;
  }

  async function prepared(tenant: string, kind: RecordKind, puts: readonly KeyedRecordPut[]): Promise<Prepared[]> {
    const all: Prepared[] = [];
    for (const put of puts) {
      const { key, value, expected, expiresAt } = put;
      const before = expected > 0 ? partsIn((await records.record(tenant, kind, key))?.value ?? "") : undefined;
      if (value.length <= PART_UNITS) {
        all.push({ put, before, written: undefined });
        continue;
      }
      const written = { id: randomUUID(), count: 0 };
      for (const part of cut(value)) {
        const own = { key: partKey(key, written, written.count++), value: part, expected: 0, expiresAt };
        await records.putRecords(tenant, kind, [own]);
        await nextTurn();
      }
      all.push({ put: { ...put, value: MARK + JSON.stringify(written) }, before, written });
    }
    return all;
  }

  /** Removes obsolete parts: the earlier ones, or those written in vain. */
  async function settle(
    tenant: string,
    kind: RecordKind,
    all: readonly Prepared[],
    revisions: readonly (number | undefined)[],
  ): Promise<void> {
    for (const [at, { put, before, written }] of all.entries()) {
      const parts = revisions[at] === undefined ? written : before;
      for (let number = 0; number < (parts?.count ?? 0); number += REMOVED_AT_ONCE) {
        const count = Math.min(REMOVED_AT_ONCE, parts!.count - number);
        const removals = Array.from({ length: count }, (_, index) => ({
          key: partKey(put.key, parts!, number + index),
          value: "",
          expected: 1,
          expiresAt: 0,
        }));
        await records.putRecords(tenant, kind, removals);
        await nextTurn();
      }
    }
  }
}

interface Parts {
  readonly id: string;
  readonly count: number;
}

interface Prepared {
  readonly put: KeyedRecordPut;
  /** The parts of the value that it replaces. */
  readonly before: Parts | undefined;
  readonly written: Parts | undefined;
}

/** True when the value is short and replaces nothing. */
function isPlain({ value, expected }: RecordPut): boolean {
  return value.length <= PART_UNITS && expected === 0;
}

function partsIn(value: string): Parts | undefined {
  return value.startsWith(MARK) ? (JSON.parse(value.slice(MARK.length)) as Parts) : undefined;
}

function partKey(key: string, { id }: Parts, number: number): string {
  return `${key}/part/${id}/${number}`;
}

/** Cuts a value into parts. A surrogate pair stays whole: alone, neither half could be stored. */
function* cut(value: string): Generator<string, void> {
  for (let from = 0, to; from < value.length; from = to) {
    to = Math.min(from + PART_UNITS, value.length);
    if (to < value.length && isFirstOfTwo(value.charCodeAt(to - 1))) to -= 1;
    yield value.slice(from, to);
  }
}

function isFirstOfTwo(unit: number): boolean {
  return (unit & 0xfc00) === 0xd800;
}
