import type { JsonObject } from "../json.ts";
import { hexOf } from "./chain.ts";
import type { AuditKind, AuditLink } from "./entry.ts";
import { fits, mayFit, type AuditFilter } from "./filter.ts";
import { readCalls } from "./read-calls.ts";

/** One record as it is shown: what it is about depends on its kind (docs/audit.md). */
export interface AuditRecord extends JsonObject {
  /** ISO 8601, in UTC: when it happened. */
  readonly at: string;
  /** Null for one of the service itself. */
  readonly tenant: string | null;
  readonly kind: AuditKind;
}

/** A record that is looked for, and which of its link's it is, counted from the newest. */
export interface PlacedRecord {
  readonly place: number;
  readonly record: AuditRecord;
}

/** Those records of a link that are looked for, the newest first, from a place on. */
export function* recordsOf(link: AuditLink, filter: AuditFilter, from: number): Generator<PlacedRecord> {
  const { kind, body } = link;
  if (body !== null && !mayFit(body, filter)) return;
  const shown = (at: number, facts: JsonObject): AuditRecord => {
    return { at: new Date(at).toISOString(), tenant: link.tenant || null, kind, ...facts };
  };
  const single = (facts: JsonObject): PlacedRecord[] => {
    const record = shown(link.at, facts);
    return from === 0 && fits(record, filter) ? [{ place: 0, record }] : [];
  };
  if (body === null) return yield* single({ removed: link.records, digest: hexOf(link.digest) });
  if (kind !== "call") return yield* single(JSON.parse(body) as JsonObject);

  const calls = readCalls(body);
  const { dropped, count } = calls;
  const first = dropped > 0 ? 1 : 0;
  if (dropped > 0) yield* single({ dropped });
  for (let place = Math.max(from, first); place < first + count; place++) {
    const { endedAt, ...facts } = calls.call(first + count - 1 - place, filter) ?? {};
    if (endedAt !== undefined) yield { place, record: shown(endedAt, withoutUndefined(facts)) };
  }
}

function withoutUndefined(facts: object): JsonObject {
  return Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== undefined));
}
