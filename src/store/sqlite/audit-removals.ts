import { hexOf } from "../../audit/chain.ts";
import { type AuditLink, type Keep, type RemovedLink, type Retention, SERVICE } from "../../audit/audit-entry.ts";
import { isObject, soundObject, type JsonObject } from "../../lib/json.ts";

/** The database row of a retention record. */
export interface RetentionRow {
  readonly number: number;
  readonly at: number;
  readonly tenant: string;
  readonly body: string | null;
}

interface Facts {
  readonly limits?: Keep;
  readonly through?: number;
  readonly hash?: string;
  readonly of?: string;
  readonly last?: Omit<RemovedLink, "digest" | "previous"> & { readonly digest: string; readonly previous: string };
}

/** Reads a retention record. For one that went bad on the disk it only says that it is there. */
export function readRetention({ number, at, tenant, body }: RetentionRow): Retention {
  const facts = soundObject(body ?? "");
  if (!facts || !areFacts(facts)) return { number, at, tenant, isDamaged: true };
  const { limits, through, hash, of, last } = facts;
  const record = { number, at, tenant, ...(limits && { limits }) };
  if (through === undefined) return record;
  if (tenant !== SERVICE || hash === undefined) return { ...record, bodies: { through, isCall: of === "calls" } };
  const removed = last && { ...last, digest: bytesOf(last.digest), previous: bytesOf(last.previous) };
  return { ...record, cut: { number: through, hash: bytesOf(hash), last: removed } };
}

function areFacts(facts: JsonObject): facts is JsonObject & Facts {
  const { limits, through, hash, of, last } = facts;
  return (
    (limits === undefined || (isObject(limits) && LIMITS.every((name) => Number.isFinite(limits[name])))) &&
    (through === undefined || Number.isSafeInteger(through)) &&
    [hash, of].every((text) => text === undefined || typeof text === "string") &&
    (last === undefined ||
      (isObject(last) &&
        LAST_NUMBERS.every((name) => Number.isSafeInteger(last[name])) &&
        LAST_TEXTS.every((name) => typeof last[name] === "string")))
  );
}

const LIMITS = ["auditDays", "auditCallDays", "auditBytesPerTenant", "auditCallBytesPerTenant"] as const;
const LAST_NUMBERS = ["at", "since", "records", "bytes"] as const;
const LAST_TEXTS = ["tenant", "kind", "digest", "previous"] as const;

/** The facts of the last link that is removed. */
export function lastRemoved(link: Omit<AuditLink, "body">, previous: Uint8Array): JsonObject {
  const { at, since, tenant, kind, records, bytes, digest } = link;
  return { at, since, tenant, kind, records, bytes, digest: hexOf(digest), previous: hexOf(previous) };
}

function bytesOf(hex: string): Uint8Array {
  return Buffer.from(hex, "hex");
}
