import { hexOf } from "../audit/chain.ts";
import type { AuditLink, Keep, RemovedLink, Retention } from "../audit/entry.ts";
import { SERVICE } from "../audit/entry.ts";
import type { JsonObject } from "../json.ts";

/** How records of retention are written down and read. */
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

export function readRetention({ number, at, tenant, body }: RetentionRow): Retention {
  const { limits, through, hash, of, last } = JSON.parse(body ?? "{}") as Facts;
  const record = { number, at, tenant, ...(limits && { limits }) };
  if (through === undefined) return record;
  if (tenant !== SERVICE || hash === undefined) return { ...record, bodies: { through, isCall: of === "calls" } };
  const removed = last && { ...last, digest: bytesOf(last.digest), previous: bytesOf(last.previous) };
  return { ...record, cut: { number: through, hash: bytesOf(hash), last: removed } };
}

/** The facts of the last link that is removed. */
export function lastRemoved(link: Omit<AuditLink, "body">, previous: Uint8Array): JsonObject {
  const { at, since, tenant, kind, records, bytes, digest } = link;
  return { at, since, tenant, kind, records, bytes, digest: hexOf(digest), previous: hexOf(previous) };
}

function bytesOf(hex: string): Uint8Array {
  return Buffer.from(hex, "hex");
}
