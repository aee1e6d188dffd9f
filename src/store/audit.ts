import {
  SERVICE,
  type AuditEntry,
  type AuditHead,
  type AuditLink,
  type ChainHead,
  type AuditRetentionLimits,
  type LinkQuery,
  type Retention,
} from "../audit/audit-entry.ts";
import { ANCHOR_MS, anchorBody, linkAfter, WRITTEN_LATE_MS } from "../audit/chain.ts";
import {
  bodiesToRemove,
  maxBodyBytes,
  excessBytes,
  daysBefore,
  forgottenChainEnd,
  headBefore,
  isRecorded,
  LEAP_MS,
  linksToRemove,
  effectiveNow,
  readRetention,
  limitsEntry,
  linkRemovalEntry,
  REMOVED_LINKS,
  type DueBodies,
  type RemovableLink,
} from "../audit/retention.ts";
import type { AddedLink, Dialect } from "./dialect.ts";
import { rows, type Steps } from "./steps.ts";

/** The maximum number of records of retention among which the current limits are looked up. */
const RETENTION_RECORDS = 20;

/**
 * Appends entries in this order and returns the links. Call it after all locks on tenants and contents. Each chain
 * stays locked until the transaction ends.
 */
export function* appendLinks(dialect: Dialect, entries: readonly AuditEntry[]): Steps<readonly AddedLink[]> {
  if (entries.length === 0) return [];
  const ends = new Map((yield* dialect.lockChainEnds(distinctTenants(entries))).map((end) => [end.tenant, end]));
  // One time for all entries, so that the order of times matches the order of links.
  const now = Math.max(...[...ends.values()].map((end) => end.now));
  const links = entries.map((entry) => {
    const end = ends.get(entry.tenant)!;
    // Times in a chain never decrease, even if the clock was set back.
    const link = linkAfter(end, Math.max(now, end.at), entry);
    Object.assign(end, { number: link.number, hash: link.hash, at: link.at });
    // Records of removals stay as long as their links, so they do not count.
    if (entry.kind === "call") end.callBytes += link.bytes;
    else if (entry.kind !== "retention") end.otherBytes += link.bytes;
    return { ...link, body: entry.body };
  });
  yield* dialect.addLinks(links, [...ends.values()]);
  return links;
}

export function distinctTenants(entries: readonly AuditEntry[]): string[] {
  return [...new Set(entries.map(({ tenant }) => tenant))];
}

const POSITION = "CASE WHEN kind = 'anchor' THEN NULL ELSE tenant END AS chain, place AS number";
// Must match the partial indexes of both stores.
const IS_REMOVABLE = "body IS NOT NULL AND kind <> 'retention' AND kind NOT IN ('retention', 'anchor')";

function linkColumns({ typed }: Dialect): string {
  const hashes = `${typed("digest", "BLOB")} AS digest, ${typed("hash", "BLOB")} AS hash`;
  return `${POSITION}, arrival, at, since, tenant, kind, records, bytes, ${hashes}`;
}

function headColumns({ typed }: Dialect): string {
  return `${typed("place", "INTEGER")} AS number, ${typed("hash", "BLOB")} AS hash`;
}

export function allLinks(dialect: Dialect): string {
  return `SELECT ${linkColumns(dialect)}, ${dialect.typed("body", "TEXT")} AS body FROM audit ORDER BY arrival`;
}

export function newestLinks(dialect: Dialect, query: LinkQuery): Steps<AuditLink[]> {
  const { tenant, kind, since, until, from, max } = query;
  const latest = until === undefined ? Number.MAX_SAFE_INTEGER : until + WRITTEN_LATE_MS;
  const [at, arrival] = !from || from.at > latest ? [latest, Number.MAX_SAFE_INTEGER] : [from.at, from.arrival];
  const values: unknown[] = [at, arrival, since ?? 0, until ?? Number.MAX_SAFE_INTEGER, max];
  const equals = (column: string, value: string): string => `${column} = $${values.push(value)}`;
  const conditions = [
    ...(tenant === undefined ? [] : [equals("tenant", tenant)]),
    kind === undefined ? "kind <> 'anchor'" : equals("kind", kind),
  ];
  return rows<AuditLink>(
    `SELECT ${linkColumns(dialect)}, ${dialect.typed("body", "TEXT")} AS body FROM audit
     WHERE (at, arrival) <= (CAST($1 AS bigint), CAST($2 AS bigint)) AND at >= $3 AND since <= $4 AND ${conditions.join(" AND ")}
     ORDER BY at DESC, arrival DESC LIMIT $5`,
    values,
  );
}

/** Newest first. */
export function* retentions({ typed }: Dialect, max?: number): Steps<Retention[]> {
  const records = yield* rows<Parameters<typeof readRetention>[0]>(
    `SELECT ${POSITION}, arrival, at, tenant, ${typed("body", "TEXT")} AS body FROM audit
     WHERE kind = 'retention' ORDER BY at DESC, arrival DESC ${max === undefined ? "" : `LIMIT ${max}`}`,
  );
  return records.map(readRetention).sort((a, b) => b.arrival - a.arrival);
}

export function* chainHeads(dialect: Dialect): Steps<ChainHead[]> {
  return yield* rows<ChainHead>(
    `SELECT NULL AS chain, ${headColumns(dialect)} FROM audit_anchored
     UNION ALL SELECT tenant, ${headColumns(dialect)} FROM audit_chain WHERE place > 0
     ORDER BY chain NULLS FIRST`,
  );
}

export function* anchorHead(dialect: Dialect): Steps<AuditHead | undefined> {
  const [end] = yield* rows<AuditHead>(`SELECT ${headColumns(dialect)} FROM audit_anchored WHERE place > 0`);
  return end;
}

export function* isAnchorDue(now: boolean): Steps<boolean> {
  const [due] = yield* rows<{ isDue: boolean | number }>(
    `SELECT ($1 OR at / ${ANCHOR_MS} <> berth_now() / ${ANCHOR_MS})
       AND EXISTS (SELECT 1 FROM audit_chain WHERE place > anchored) AS "isDue" FROM audit_anchored`,
    [now],
  );
  return Boolean(due?.isDue);
}

/** A transaction. A reader who sees an anchor sees all links that it covers, and no earlier link that it does not. */
export function* addAnchor(dialect: Dialect, now: boolean): Steps<void> {
  if (dialect.lockChains !== undefined) yield* rows(dialect.lockChains);
  // Another process may have added it in the meantime.
  if (!(yield* isAnchorDue(now))) return;
  const [previous] = yield* rows<AuditHead & { readonly at: number; readonly now: number }>(
    `SELECT ${headColumns(dialect)}, ${dialect.typed("at", "INTEGER")} AS at, berth_now() AS now FROM audit_anchored`,
  );
  const grown = yield* rows<AuditHead & { readonly tenant: string }>(
    `UPDATE audit_chain SET anchored = place WHERE place > anchored RETURNING tenant, ${headColumns(dialect)}`,
  );
  const body = anchorBody(grown.sort((a, b) => (a.tenant < b.tenant ? -1 : 1)));
  const entry = { tenant: SERVICE, kind: "anchor", body, records: 0 } as const;
  const link = linkAfter(previous!, Math.max(previous!.now, previous!.at), entry);
  yield* dialect.addLinks([{ ...link, body }], []);
  yield* rows("UPDATE audit_anchored SET place = $1, hash = $2, at = $3", [link.number, link.hash, link.at]);
}

/** A check without locks, as there is usually nothing to remove. */
export function* isRetentionDue(dialect: Dialect, keep: AuditRetentionLimits): Steps<boolean> {
  if ((yield* dueLink(keep)) ?? (yield* dueBodies(keep))) return true;
  return !(yield* areLimitsStated(dialect, keep));
}

/** A transaction with one step of retention. Returns true if there may be more to do. */
export function* retain(dialect: Dialect, keep: AuditRetentionLimits): Steps<boolean> {
  if (dialect.lockRetention !== undefined) yield* rows(dialect.lockRetention);
  const link = yield* dueLink(keep);
  if (link) return yield* removeLinks(dialect, link, keep);
  const bodies = yield* dueBodies(keep);
  if (bodies) return yield* removeBodies(dialect, bodies, keep);
  if (!(yield* areLimitsStated(dialect, keep))) yield* appendLinks(dialect, [limitsEntry(keep)]);
  return false;
}

/** The time before which links or bodies are removed. */
function* removedBefore(days: number): Steps<number> {
  if (days === 0) return 0;
  const [times] = yield* rows<Parameters<typeof effectiveNow>[0]>(
    `SELECT now, (SELECT max(at) FROM audit) AS latest,
       (SELECT max(at) FROM audit WHERE at < now - ${LEAP_MS}) AS "lastBefore",
       (SELECT min(at) FROM audit WHERE at >= now - ${LEAP_MS}) AS "firstFrom"
     FROM (SELECT berth_now() AS now LIMIT 1) AS clock`,
  );
  return daysBefore(days, effectiveNow(times!));
}

type DueLink = Pick<RemovableLink, "chain" | "tenant" | "at"> & { readonly before: number };

/** The oldest link if it is due for removal. */
function* dueLink({ auditDays }: AuditRetentionLimits): Steps<DueLink | undefined> {
  const before = yield* removedBefore(auditDays);
  const [oldest] = yield* rows<Omit<DueLink, "before">>(
    `SELECT ${POSITION}, tenant, at FROM audit ORDER BY at, arrival LIMIT 1`,
  );
  return oldest && oldest.at < before ? { ...oldest, before } : undefined;
}

function* removeLinks(dialect: Dialect, { chain, tenant, before }: DueLink, keep: AuditRetentionLimits): Steps<true> {
  const oldest = yield* rows<RemovableLink>(
    `SELECT ${linkColumns(dialect)}, CASE WHEN ${IS_REMOVABLE} THEN bytes ELSE 0 END AS "retainedBytes",
       CASE WHEN kind = 'retention' THEN ${dialect.typed("body", "TEXT")} END AS "retentionBody"
     FROM audit WHERE tenant = $1 AND kind ${chain === null ? "=" : "<>"} 'anchor' ORDER BY at, arrival LIMIT $2`,
    [tenant, REMOVED_LINKS],
  );
  const removed = linksToRemove(oldest, before);
  // Must be appended first, because an empty chain has no end.
  const record = linkRemovalEntry(removed, headBefore(chain, yield* retentions(dialect)), keep);
  yield* appendLinks(dialect, [record]);
  const arrivals = removed.map(({ arrival }) => arrival);
  yield* rows(`DELETE FROM audit WHERE ${dialect.oneOf("arrival", "$1")}`, [arrivals]);
  const [callBytes, otherBytes] = [true, false].map((isCalls) =>
    removed.reduce((sum, { kind, retainedBytes }) => ((kind === "call") === isCalls ? sum + retainedBytes : sum), 0),
  );
  yield* subtractBytes(tenant, callBytes!, otherBytes!);
  const forgottenEnds = removed.flatMap((link) => forgottenChainEnd(link) ?? []);
  if (forgottenEnds.length > 0) {
    const tuples = forgottenEnds.map((_, index) => `($${2 * index + 1}, CAST($${2 * index + 2} AS bigint))`).join(", ");
    const values = forgottenEnds.flatMap((end) => [end.chain, end.number]);
    yield* rows(`DELETE FROM audit_chain WHERE (tenant, place) IN (VALUES ${tuples})`, values);
  }
  return true;
}

function* subtractBytes(tenant: string, calls: number, others: number): Steps<void> {
  if (calls + others === 0) return;
  yield* rows("UPDATE audit_chain SET call_bytes = call_bytes - $2, other_bytes = other_bytes - $3 WHERE tenant = $1", [
    tenant,
    calls,
    others,
  ]);
}

/** The first tenant with bodies that are due for removal. */
function* dueBodies(keep: AuditRetentionLimits): Steps<DueBodies | undefined> {
  const before = yield* removedBefore(keep.auditCallDays);
  const [due] = yield* rows<Pick<DueBodies, "tenant"> & { readonly isCall: boolean | number; readonly bytes: number }>(
    `SELECT tenant, is_call AS "isCall", bytes
     FROM (SELECT tenant, FALSE AS is_call, other_bytes AS bytes FROM audit_chain WHERE other_bytes > 0
       UNION ALL SELECT tenant, TRUE, call_bytes FROM audit_chain WHERE call_bytes > 0) AS kept
     WHERE bytes > CASE WHEN is_call THEN CAST($1 AS bigint) ELSE CAST($2 AS bigint) END
       OR (is_call AND CAST($3 AS bigint) > 0 AND CAST($3 AS bigint) > (
         SELECT at FROM audit WHERE audit.tenant = kept.tenant AND (kind = 'call') = TRUE AND ${IS_REMOVABLE}
         ORDER BY arrival LIMIT 1))
     ORDER BY tenant, is_call LIMIT 1`,
    [...[true, false].map((isCall) => Math.min(maxBodyBytes(isCall, keep), Number.MAX_SAFE_INTEGER)), before],
  );
  if (!due) return undefined;
  const { tenant, bytes } = due;
  const isCall = Boolean(due.isCall);
  return { tenant, isCall, excess: excessBytes(bytes, maxBodyBytes(isCall, keep)), before };
}

function* removeBodies(dialect: Dialect, due: DueBodies, keep: AuditRetentionLimits): Steps<true> {
  const { tenant, isCall } = due;
  const oldest = yield* rows<Parameters<typeof bodiesToRemove>[0][number]>(
    `SELECT place AS number, arrival, at, bytes, records FROM audit
     WHERE tenant = $1 AND (kind = 'call') = ${isCall ? "TRUE" : "FALSE"} AND ${IS_REMOVABLE} ORDER BY arrival LIMIT $2`,
    [tenant, REMOVED_LINKS],
  );
  const removed = bodiesToRemove(oldest, due, keep);
  if (!removed) return true;
  yield* rows(`UPDATE audit SET body = NULL WHERE ${dialect.oneOf("arrival", "$1")}`, [removed.arrivals]);
  yield* subtractBytes(tenant, isCall ? removed.bytes : 0, isCall ? 0 : removed.bytes);
  yield* appendLinks(dialect, [removed.record]);
  return true;
}

function* areLimitsStated(dialect: Dialect, keep: AuditRetentionLimits): Steps<boolean> {
  const latest = (yield* retentions(dialect, RETENTION_RECORDS)).find(({ limits }) => limits);
  const [clock] = yield* rows<{ now: number }>("SELECT berth_now() AS now");
  return isRecorded(latest, keep, clock!.now);
}
