import {
  SERVICE,
  type AuditEntry,
  type AuditHead,
  type AuditLink,
  type ChainHead,
  type Keep,
  type LinkQuery,
  type Retention,
} from "../audit/audit-entry.ts";
import { ANCHOR_MS, anchorBody, linkAfter, WRITTEN_LATE_MS } from "../audit/chain.ts";
import {
  bodiesToRemove,
  bodyBytesMax,
  bytesOver,
  daysBefore,
  forgottenWith,
  headBefore,
  isStated,
  LEAP_MS,
  linksToRemove,
  presentOf,
  readRetention,
  recordOfLimits,
  recordOfLinks,
  REMOVED_LINKS,
  type DueBodies,
  type RemovableLink,
} from "../audit/retention.ts";
import type { AddedLink, Dialect } from "./dialect.ts";
import { rows, type Steps } from "./steps.ts";

/** The audit log of a store. */

/** Records of retention, among which the newest that can be read states the limits. */
const STATEMENTS = 20;

/**
 * Appends entries in this order, after all locks on tenants and contents; returns the links. Each chain stays locked until
 * the transaction ends.
 */
export function* appendLinks(dialect: Dialect, entries: readonly AuditEntry[]): Steps<readonly AddedLink[]> {
  if (entries.length === 0) return [];
  const ends = new Map((yield* dialect.lockChainEnds(tenantsOf(entries))).map((end) => [end.tenant, end]));
  // One moment for all, as their order is that of their times.
  const now = Math.max(...[...ends.values()].map((end) => end.now));
  const links = entries.map((entry) => {
    const end = ends.get(entry.tenant)!;
    // The chain orders the times, whatever happens to the clock.
    const link = linkAfter(end, Math.max(now, end.at), entry);
    Object.assign(end, { number: link.number, hash: link.hash, at: link.at });
    // A record of a removal stays for as long as its link.
    if (entry.kind === "call") end.callBytes += link.bytes;
    else if (entry.kind !== "retention") end.otherBytes += link.bytes;
    return { ...link, body: entry.body };
  });
  yield* dialect.addLinks(links, [...ends.values()]);
  return links;
}

export function tenantsOf(entries: readonly AuditEntry[]): string[] {
  return [...new Set(entries.map(({ tenant }) => tenant))];
}

const PLACE = "CASE WHEN kind = 'anchor' THEN NULL ELSE tenant END AS chain, place AS number";
// As the partial indexes of both stores have it.
const IS_REMOVABLE = "body IS NOT NULL AND kind <> 'retention' AND kind NOT IN ('retention', 'anchor')";

function linkOf({ stored }: Dialect): string {
  const hashes = `${stored("digest", "BLOB")} AS digest, ${stored("hash", "BLOB")} AS hash`;
  return `${PLACE}, arrival, at, since, tenant, kind, records, bytes, ${hashes}`;
}

function headOf({ stored }: Dialect): string {
  return `${stored("place", "INTEGER")} AS number, ${stored("hash", "BLOB")} AS hash`;
}

/** The query for all links, as they arrived. */
export function allLinks(dialect: Dialect): string {
  return `SELECT ${linkOf(dialect)}, ${dialect.stored("body", "TEXT")} AS body FROM audit ORDER BY arrival`;
}

export function newestLinks(dialect: Dialect, query: LinkQuery): Steps<AuditLink[]> {
  const { tenant, kind, since, until, from, max } = query;
  const latest = until === undefined ? Number.MAX_SAFE_INTEGER : until + WRITTEN_LATE_MS;
  const [at, arrival] = !from || from.at > latest ? [latest, Number.MAX_SAFE_INTEGER] : [from.at, from.arrival];
  const values: unknown[] = [at, arrival, since ?? 0, until ?? Number.MAX_SAFE_INTEGER, max];
  const isOf = (column: string, value: string): string => `${column} = $${values.push(value)}`;
  const which = [
    ...(tenant === undefined ? [] : [isOf("tenant", tenant)]),
    kind === undefined ? "kind <> 'anchor'" : isOf("kind", kind),
  ];
  return rows<AuditLink>(
    `SELECT ${linkOf(dialect)}, ${dialect.stored("body", "TEXT")} AS body FROM audit
     WHERE (at, arrival) <= (CAST($1 AS bigint), CAST($2 AS bigint)) AND at >= $3 AND since <= $4 AND ${which.join(" AND ")}
     ORDER BY at DESC, arrival DESC LIMIT $5`,
    values,
  );
}

/** Newest first. */
export function* retentions({ stored }: Dialect, max?: number): Steps<Retention[]> {
  const found = yield* rows<Parameters<typeof readRetention>[0]>(
    `SELECT ${PLACE}, arrival, at, tenant, ${stored("body", "TEXT")} AS body FROM audit
     WHERE kind = 'retention' ORDER BY at DESC, arrival DESC ${max === undefined ? "" : `LIMIT ${max}`}`,
  );
  return found.map(readRetention).sort((a, b) => b.arrival - a.arrival);
}

export function* chainHeads(dialect: Dialect): Steps<ChainHead[]> {
  return yield* rows<ChainHead>(
    `SELECT NULL AS chain, ${headOf(dialect)} FROM audit_anchored
     UNION ALL SELECT tenant, ${headOf(dialect)} FROM audit_chain WHERE place > 0
     ORDER BY chain NULLS FIRST`,
  );
}

export function* anchorHead(dialect: Dialect): Steps<AuditHead | undefined> {
  const [end] = yield* rows<AuditHead>(`SELECT ${headOf(dialect)} FROM audit_anchored WHERE place > 0`);
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

/** A transaction: whoever reads an anchor has read all links that it covers, and no earlier link that it does not cover. */
export function* addAnchor(dialect: Dialect, now: boolean): Steps<void> {
  if (dialect.lockChains !== undefined) yield* rows(dialect.lockChains);
  // Another process may have been first.
  if (!(yield* isAnchorDue(now))) return;
  const [previous] = yield* rows<AuditHead & { readonly at: number; readonly now: number }>(
    `SELECT ${headOf(dialect)}, ${dialect.stored("at", "INTEGER")} AS at, berth_now() AS now FROM audit_anchored`,
  );
  const grown = yield* rows<AuditHead & { readonly tenant: string }>(
    `UPDATE audit_chain SET anchored = place WHERE place > anchored RETURNING tenant, ${headOf(dialect)}`,
  );
  const body = anchorBody(grown.sort((a, b) => (a.tenant < b.tenant ? -1 : 1)));
  const entry = { tenant: SERVICE, kind: "anchor", body, records: 0 } as const;
  const link = linkAfter(previous!, Math.max(previous!.now, previous!.at), entry);
  yield* dialect.addLinks([{ ...link, body }], []);
  yield* rows("UPDATE audit_anchored SET place = $1, hash = $2, at = $3", [link.number, link.hash, link.at]);
}

/** Usually there is nothing to remove, and no one has to wait for a lock. */
export function* isRetentionDue(dialect: Dialect, keep: Keep): Steps<boolean> {
  if ((yield* dueLink(keep)) ?? (yield* dueBodies(keep))) return true;
  return !(yield* areLimitsStated(dialect, keep));
}

/** A transaction, which takes one step; true when there may be another. */
export function* retain(dialect: Dialect, keep: Keep): Steps<boolean> {
  if (dialect.lockRetention !== undefined) yield* rows(dialect.lockRetention);
  const link = yield* dueLink(keep);
  if (link) return yield* removeLinks(dialect, link, keep);
  const bodies = yield* dueBodies(keep);
  if (bodies) return yield* removeBodies(dialect, bodies, keep);
  if (!(yield* areLimitsStated(dialect, keep))) yield* appendLinks(dialect, [recordOfLimits(keep)]);
  return false;
}

/** The time before which links or bodies are removed. */
function* removedBefore(days: number): Steps<number> {
  if (days === 0) return 0;
  const [times] = yield* rows<Parameters<typeof presentOf>[0]>(
    `SELECT now, (SELECT max(at) FROM audit) AS latest,
       (SELECT max(at) FROM audit WHERE at < now - ${LEAP_MS}) AS "lastBefore",
       (SELECT min(at) FROM audit WHERE at >= now - ${LEAP_MS}) AS "firstFrom"
     FROM (SELECT berth_now() AS now LIMIT 1) AS clock`,
  );
  return daysBefore(days, presentOf(times!));
}

type DueLink = Pick<RemovableLink, "chain" | "tenant" | "at"> & { readonly before: number };

/** The oldest link, if it is to be removed. */
function* dueLink({ auditDays }: Keep): Steps<DueLink | undefined> {
  const before = yield* removedBefore(auditDays);
  const [oldest] = yield* rows<Omit<DueLink, "before">>(
    `SELECT ${PLACE}, tenant, at FROM audit ORDER BY at, arrival LIMIT 1`,
  );
  return oldest && oldest.at < before ? { ...oldest, before } : undefined;
}

function* removeLinks(dialect: Dialect, { chain, tenant, before }: DueLink, keep: Keep): Steps<true> {
  const oldest = yield* rows<RemovableLink>(
    `SELECT ${linkOf(dialect)}, CASE WHEN ${IS_REMOVABLE} THEN bytes ELSE 0 END AS "keptBytes",
       CASE WHEN kind = 'retention' THEN ${dialect.stored("body", "TEXT")} END AS said
     FROM audit WHERE tenant = $1 AND kind ${chain === null ? "=" : "<>"} 'anchor' ORDER BY at, arrival LIMIT $2`,
    [tenant, REMOVED_LINKS],
  );
  const removed = linksToRemove(oldest, before);
  // Comes first, since a chain with nothing in it has no end.
  const record = recordOfLinks(removed, headBefore(chain, yield* retentions(dialect)), keep);
  yield* appendLinks(dialect, [record]);
  const arrivals = removed.map(({ arrival }) => arrival);
  yield* rows(`DELETE FROM audit WHERE ${dialect.oneOf("arrival", "$1")}`, [arrivals]);
  const [calls, others] = [true, false].map((isCalls) =>
    removed.reduce((sum, { kind, keptBytes }) => ((kind === "call") === isCalls ? sum + keptBytes : sum), 0),
  );
  yield* uncount(tenant, calls!, others!);
  const forgotten = removed.flatMap((link) => forgottenWith(link) ?? []);
  if (forgotten.length > 0) {
    const ends = forgotten.map((_, index) => `($${2 * index + 1}, CAST($${2 * index + 2} AS bigint))`).join(", ");
    const values = forgotten.flatMap((gone) => [gone.chain, gone.number]);
    yield* rows(`DELETE FROM audit_chain WHERE (tenant, place) IN (VALUES ${ends})`, values);
  }
  return true;
}

function* uncount(tenant: string, calls: number, others: number): Steps<void> {
  if (calls + others === 0) return;
  yield* rows("UPDATE audit_chain SET call_bytes = call_bytes - $2, other_bytes = other_bytes - $3 WHERE tenant = $1", [
    tenant,
    calls,
    others,
  ]);
}

/** The first tenant some of whose bodies are to be removed. */
function* dueBodies(keep: Keep): Steps<DueBodies | undefined> {
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
    [...[true, false].map((isCall) => Math.min(bodyBytesMax(isCall, keep), Number.MAX_SAFE_INTEGER)), before],
  );
  if (!due) return undefined;
  const { tenant, bytes } = due;
  const isCall = Boolean(due.isCall);
  return { tenant, isCall, over: bytesOver(bytes, bodyBytesMax(isCall, keep)), before };
}

function* removeBodies(dialect: Dialect, due: DueBodies, keep: Keep): Steps<true> {
  const { tenant, isCall } = due;
  const oldest = yield* rows<Parameters<typeof bodiesToRemove>[0][number]>(
    `SELECT place AS number, arrival, at, bytes, records FROM audit
     WHERE tenant = $1 AND (kind = 'call') = ${isCall ? "TRUE" : "FALSE"} AND ${IS_REMOVABLE} ORDER BY arrival LIMIT $2`,
    [tenant, REMOVED_LINKS],
  );
  const removed = bodiesToRemove(oldest, due, keep);
  if (!removed) return true;
  yield* rows(`UPDATE audit SET body = NULL WHERE ${dialect.oneOf("arrival", "$1")}`, [removed.arrivals]);
  yield* uncount(tenant, isCall ? removed.bytes : 0, isCall ? 0 : removed.bytes);
  yield* appendLinks(dialect, [removed.record]);
  return true;
}

function* areLimitsStated(dialect: Dialect, keep: Keep): Steps<boolean> {
  const stated = (yield* retentions(dialect, STATEMENTS)).find(({ limits }) => limits);
  const [clock] = yield* rows<{ now: number }>("SELECT berth_now() AS now");
  return isStated(stated, keep, clock!.now);
}
