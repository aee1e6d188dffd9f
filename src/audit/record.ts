import { tryParseObject, type JsonObject } from "../lib/json.ts";
import type { AuditLink } from "./audit-entry.ts";
import { readCalls } from "./call-block.ts";
import { toHex } from "./chain.ts";
import { matchesFilter, mayMatch, type AuditFilter } from "./filter.ts";

/** One record as displayed. Its facts depend on its kind (docs/audit.md). */
export interface AuditRecord extends JsonObject {
  /** When it happened, in ISO 8601 and UTC. */
  readonly at: string;
  /** Null for a record about the service itself. */
  readonly tenant: string | null;
  readonly kind: AuditLink["kind"];
}

/** A matching record, and its index in its link, counted from the newest. */
export interface IndexedRecord {
  readonly index: number;
  readonly record: AuditRecord;
}

/** Yields the matching records of a link, newest first, from an index on. */
export function* matchingRecords(link: AuditLink, filter: AuditFilter, from: number): Generator<IndexedRecord> {
  const { kind, body } = link;
  if (body !== null && !mayMatch(body, filter)) return;
  const toRecord = (at: number, facts: JsonObject): AuditRecord => {
    const common = { at: toIso(at), tenant: link.tenant || null, kind };
    return { ...common, ...facts, ...common };
  };
  const single = (facts: JsonObject): IndexedRecord[] => {
    const record = toRecord(link.at, facts);
    return from === 0 && matchesFilter(record, filter) ? [{ index: 0, record }] : [];
  };
  if (body === null) return yield* single({ removed: link.records, digest: toHex(link.digest) });
  const damaged = (records: number): JsonObject => ({ damaged: records, digest: toHex(link.digest) });
  if (kind !== "call") return yield* single(tryParseObject(body) ?? damaged(link.records));

  const calls = readCalls(body);
  if (!calls) return yield* single(damaged(link.records));
  const { dropped, count } = calls;
  const offset = dropped > 0 ? 1 : 0;
  if (dropped > 0) yield* single({ dropped });
  for (let place = Math.max(from, offset); place < offset + count; place++) {
    const call = calls.call(offset + count - 1 - place, filter);
    if (call === undefined) continue;
    const { endedAt, ...facts } = call === "damaged" ? { endedAt: link.at, ...damaged(1) } : call;
    const record = toRecord(endedAt, withoutUndefined(facts));
    if (call !== "damaged" || matchesFilter(record, filter)) yield { index: place, record };
  }
}

/** The latest time that a `Date` supports, in milliseconds. */
const DATE_MS_MAX = 8.64e15;

function toIso(at: number): string {
  return new Date(Math.abs(at) <= DATE_MS_MAX ? at : 0).toISOString();
}

function withoutUndefined(facts: object): JsonObject {
  return Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== undefined));
}
