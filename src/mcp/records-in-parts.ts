import { randomUUID } from "node:crypto";
import { yieldToCalls } from "../lib/event-loop.ts";
import type { KeyedRecordPut, RecordKind, RecordPut, Records } from "../lib/records.ts";

/** Length of a part in UTF-16 code units: the store writes or reads it in about a millisecond. */
const PART_UNITS = 128 * 1024;
const REMOVALS_PER_BATCH = 8;
/** Begins the reference to a value that is stored in parts. Other values are JSON, or begin with JSON. */
const MARK = "parts ";

/**
 * Stores long values in parts, each a record of its own, yielding to the event loop between them. The record itself is
 * written last and references its parts, so that a value changes atomically. Orphaned parts expire with the record.
 */
export function withLongValues(records: Records): Records {
  return {
    now: () => records.now(),

    async record(tenant, kind, key) {
      for (;;) {
        const found = await records.record(tenant, kind, key);
        const parts = found && partsIn(found.value);
        if (!parts) return found;
        const value = await readParts(tenant, kind, key, parts);
        if (value !== undefined) return { ...found, value };
        // Its parts were removed during the read: the value was replaced, or has expired.
        const current = await records.record(tenant, kind, key);
        if (current?.revision === found.revision) return undefined;
      }
    },

    async putRecord(tenant, kind, key, put) {
      if (isPlain(put)) return records.putRecord(tenant, kind, key, put);
      const [whole] = await writeParts(tenant, kind, [{ key, ...put }]);
      const revision = await records.putRecord(tenant, kind, key, whole!.put);
      await removeObsolete(tenant, kind, [whole!], [revision]);
      return revision;
    },

    async putRecords(tenant, kind, puts) {
      if (puts.every(isPlain)) return records.putRecords(tenant, kind, puts);
      const all = await writeParts(tenant, kind, puts);
      const revisions = await records.putRecords(
        tenant,
        kind,
        all.map(({ put }) => put),
      );
      await removeObsolete(tenant, kind, all, revisions);
      return revisions;
    },
  };

  async function readParts(tenant: string, kind: RecordKind, key: string, parts: Parts): Promise<string | undefined> {
    let value = "";
    for (let number = 0; number < parts.count; number++) {
      const part = await records.record(tenant, kind, partKey(key, parts, number));
      if (!part) return undefined;
      value += part.value;
      await yieldToCalls();
    }
    return value;
  }

  async function writeParts(tenant: string, kind: RecordKind, puts: readonly KeyedRecordPut[]): Promise<Prepared[]> {
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
        const record = { key: partKey(key, written, written.count++), value: part, expected: 0, expiresAt };
        await records.putRecords(tenant, kind, [record]);
        await yieldToCalls();
      }
      all.push({ put: { ...put, value: MARK + JSON.stringify(written) }, before, written });
    }
    return all;
  }

  /** Removes obsolete parts: those of the replaced value, or the new ones if the record was not written. */
  async function removeObsolete(
    tenant: string,
    kind: RecordKind,
    all: readonly Prepared[],
    revisions: readonly (number | undefined)[],
  ): Promise<void> {
    for (const [at, { put, before, written }] of all.entries()) {
      const parts = revisions[at] === undefined ? written : before;
      for (let number = 0; number < (parts?.count ?? 0); number += REMOVALS_PER_BATCH) {
        const count = Math.min(REMOVALS_PER_BATCH, parts!.count - number);
        const removals = Array.from({ length: count }, (_, index) => ({
          key: partKey(put.key, parts!, number + index),
          value: "",
          expected: 1,
          expiresAt: 0,
        }));
        await records.putRecords(tenant, kind, removals);
        await yieldToCalls();
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
  /** Parts of the value that it replaces. */
  readonly before: Parts | undefined;
  readonly written: Parts | undefined;
}

function isPlain({ value, expected }: RecordPut): boolean {
  return value.length <= PART_UNITS && expected === 0;
}

function partsIn(value: string): Parts | undefined {
  return value.startsWith(MARK) ? (JSON.parse(value.slice(MARK.length)) as Parts) : undefined;
}

function partKey(key: string, { id }: Parts, number: number): string {
  return `${key}/part/${id}/${number}`;
}

/** Cuts a value into parts, never within a surrogate pair: the store rejects lone halves. */
function* cut(value: string): Generator<string, void> {
  for (let from = 0, to; from < value.length; from = to) {
    to = Math.min(from + PART_UNITS, value.length);
    if (to < value.length && isHighSurrogate(value.charCodeAt(to - 1))) to -= 1;
    yield value.slice(from, to);
  }
}

function isHighSurrogate(unit: number): boolean {
  return (unit & 0xfc00) === 0xd800;
}
