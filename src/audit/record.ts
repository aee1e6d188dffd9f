import { soundObject, type JsonObject } from "../lib/json.ts";
import type { AuditLink } from "./audit-entry.ts";
import { readCalls } from "./call-block.ts";
import { hexOf } from "./chain.ts";
import { fits, mayFit, type AuditFilter } from "./filter.ts";

/** One record as it is shown: its facts depend on its kind (docs/audit.md). */
export interface AuditRecord extends JsonObject {
  /** ISO 8601, in UTC: when it happened. */
  readonly at: string;
  /** Null for a record of the service itself. */
  readonly tenant: string | null;
  readonly kind: AuditLink["kind"];
}

/** A matching record, and its index within its link, counted from the newest. */
export interface PlacedRecord {
  readonly place: number;
  readonly record: AuditRecord;
}

/** The matching records of a link, newest first, from an index on. */
export function* recordsOf(link: AuditLink, filter: AuditFilter, from: number): Generator<PlacedRecord> {
  const { kind, body } = link;
  if (body !== null && !mayFit(body, filter)) return;
  const shown = (at: number, facts: JsonObject): AuditRecord => {
    const own = { at: isoOf(at), tenant: link.tenant || null, kind };
    return { ...own, ...facts, ...own };
  };
  const single = (facts: JsonObject): PlacedRecord[] => {
    const record = shown(link.at, facts);
    return from === 0 && fits(record, filter) ? [{ place: 0, record }] : [];
  };
  if (body === null) return yield* single({ removed: link.records, digest: hexOf(link.digest) });
  const damaged = (records: number): JsonObject => ({ damaged: records, digest: hexOf(link.digest) });
  if (kind !== "call") return yield* single(soundObject(body) ?? damaged(link.records));

  const calls = readCalls(body);
  if (!calls) return yield* single(damaged(link.records));
  const { dropped, count } = calls;
  const first = dropped > 0 ? 1 : 0;
  if (dropped > 0) yield* single({ dropped });
  for (let place = Math.max(from, first); place < first + count; place++) {
    const call = calls.call(first + count - 1 - place, filter);
    if (call === undefined) continue;
    const { endedAt, ...facts } = call === "damaged" ? { endedAt: link.at, ...damaged(1) } : call;
    const record = shown(endedAt, withoutUndefined(facts));
    if (call !== "damaged" || fits(record, filter)) yield { place, record };
  }
}

/** The latest time that a date can hold, in milliseconds. */
const DATE_MS_MAX = 8.64e15;

function isoOf(at: number): string {
  return new Date(Math.abs(at) <= DATE_MS_MAX ? at : 0).toISOString();
}

function withoutUndefined(facts: object): JsonObject {
  return Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== undefined));
}
