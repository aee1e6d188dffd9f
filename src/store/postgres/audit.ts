import {
  SERVICE,
  type AuditEntry,
  type AuditHead,
  type AuditLink,
  type AuditLinks,
  type ChainHead,
  type Keep,
  type LinkQuery,
  type Retention,
} from "../../audit/audit-entry.ts";
import { ANCHOR_MS, anchorBody, GENESIS, linkAfter, WRITTEN_LATE_MS } from "../../audit/chain.ts";
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
} from "../../audit/retention.ts";
import type { BerthError } from "../../lib/errors.ts";
import { lock, type PostgresDatabase, type RunSql, type Snapshot } from "./database.ts";

/** Links that are in memory at once while all are read. */
const LINKS_AT_ONCE = 50;
/** Who appends while an anchor waits for others that do waits for that anchor. */
const ANCHOR_WAITS_MS = 2_000;
/** Records of retention, among which the newest that can be read states the limits. */
const STATEMENTS = 20;

const QUICK = { isDurable: false } as const;

/** Records an event in the transaction of its change, after all locks on tenants and contents. */
export async function appendAudit(run: RunSql, entry: AuditEntry): Promise<void> {
  await appendAllAudit(run, [entry]);
}

/** As `appendAudit`, in this order; returns the links. Each chain stays locked until the transaction ends. */
export async function appendAllAudit(run: RunSql, entries: readonly AuditEntry[]): Promise<readonly Link[]> {
  if (entries.length === 0) return [];
  const ends = await lockEnds(run, tenantsOf(entries));
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
    return { ...link, body: textOf(entry.body) };
  });
  const columns = ["tenant", "number", "hash", "at", "callBytes", "otherBytes"] as const;
  await run(
    `WITH added AS (${ADD})
     UPDATE audit_chain AS chain SET place = grown.place, hash = grown.hash, at = grown.at,
       call_bytes = call_bytes + more_calls, other_bytes = other_bytes + more
     FROM unnest($11::text[], $12::bigint[], $13::bytea[], $14::bigint[], $15::bigint[], $16::bigint[])
       AS grown (tenant, place, hash, at, more_calls, more)
     WHERE chain.tenant = grown.tenant`,
    [...columnsOf(links), ...columns.map((column) => [...ends.values()].map((end) => end[column]))],
  );
  return links;
}

type Link = ReturnType<typeof linkAfter>;

interface End extends AuditHead {
  readonly tenant: string;
  readonly at: number;
  readonly now: number;
  callBytes: number;
  otherBytes: number;
}

/** The ends of chains, which begin where there was none, in the order of their tenants, as all take them. */
async function lockEnds(run: RunSql, tenants: readonly string[]): Promise<Map<string, End>> {
  const ends = await run<End>(
    `INSERT INTO audit_chain AS chain (tenant, place, hash, at, anchored, call_bytes, other_bytes)
     SELECT tenant, 0, $2::bytea, 0, 0, 0, 0 FROM unnest($1::text[]) AS tenant
     ORDER BY tenant COLLATE "C"
     ON CONFLICT (tenant) DO UPDATE SET place = chain.place
     RETURNING tenant, place AS number, hash, at, berth_now() AS now, 0 AS "callBytes", 0 AS "otherBytes"`,
    [tenants, GENESIS.hash],
  );
  return new Map(ends.map((end) => [end.tenant, end]));
}

/** Adds links in their order. */
const ADD = `INSERT INTO audit (place, at, since, tenant, kind, records, bytes, digest, hash, body)
  SELECT place, at, since, tenant, kind, records, bytes, digest, hash, body
  FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::bigint[],
    $8::bytea[], $9::bytea[], $10::text[])
    WITH ORDINALITY AS link (place, at, since, tenant, kind, records, bytes, digest, hash, body, turn)
  ORDER BY turn`;

/** The parameters of `ADD`. */
function columnsOf(links: readonly (Link & { readonly body: string })[]): unknown[] {
  const columns = ["number", "at", "since", "tenant", "kind", "records", "bytes", "digest", "hash", "body"] as const;
  return columns.map((column) => links.map((link) => link[column]));
}

/** A database, or one transaction. */
interface AuditDatabase extends Pick<PostgresDatabase, "run" | "transaction"> {
  snapshot(): Promise<Pick<Snapshot, "parts" | "close">>;
}

/** The audit log as the rest of Berth uses it. Nobody waits long for another process, so that none is refused at once. */
export function postgresAuditLinks(database: AuditDatabase): AuditLinks {
  const { run } = database;
  /** The first links of entries that may be there, as the connection was lost while they were committed. */
  const unsure = new WeakMap<readonly AuditEntry[], Link>();
  return {
    async append(entries) {
      let first: Link | undefined;
      try {
        await database.transaction(async (within) => {
          const perhaps = unsure.get(entries);
          if (!perhaps || !(await isThere(within, perhaps, entries))) [first] = await appendAllAudit(within, entries);
        }, QUICK);
      } catch (error) {
        if (first && (error as BerthError).code === "store_uncertain") unsure.set(entries, first);
        throw error;
      }
    },

    newest: (query) => newest(run, query),

    async *all() {
      const snapshot = await database.snapshot();
      try {
        const links = snapshot.parts<AuditLink>(`SELECT ${LINK}, body FROM audit ORDER BY arrival`, [], LINKS_AT_ONCE);
        for await (const part of links) yield* part;
      } finally {
        await snapshot.close();
      }
    },

    retentions: () => retentions(run),

    heads: () =>
      run<ChainHead>(
        `SELECT NULL AS chain, place AS number, hash FROM audit_anchored
         UNION ALL SELECT tenant, place, hash FROM audit_chain WHERE place > 0
         ORDER BY chain NULLS FIRST`,
      ),

    head: () => anchorsEnd(run),

    async anchor({ now = false } = {}) {
      // Usually there is nothing to do, and nobody should wait for the lock. Its head may be kept elsewhere, to be found here.
      if (await isAnchorDue(run, now)) await database.transaction((within) => anchor(within, now));
      return anchorsEnd(run);
    },

    async retain(keep) {
      const isDue = (await dueLink(run, keep)) ?? (await dueBodies(run, keep)) ?? !(await areLimitsStated(run, keep));
      return isDue !== false && (await database.transaction((within) => retain(within, keep), QUICK));
    },
  };
}

/** Whoever appended it holds the chain until it is known. */
async function isThere(run: RunSql, { tenant, at, hash }: Link, entries: readonly AuditEntry[]): Promise<boolean> {
  await lockEnds(run, tenantsOf(entries));
  const [found] = await run("SELECT 1 FROM audit WHERE tenant = $1 AND at = $2 AND hash = $3", [tenant, at, hash]);
  return found !== undefined;
}

function tenantsOf(entries: readonly AuditEntry[]): string[] {
  return [...new Set(entries.map(({ tenant }) => tenant))];
}

const PLACE = "CASE WHEN kind = 'anchor' THEN NULL ELSE tenant END AS chain, place AS number";
const LINK = `${PLACE}, arrival, at, since, tenant, kind, records, bytes, digest, hash`;
const IS_REMOVABLE = "body IS NOT NULL AND kind NOT IN ('retention', 'anchor')";

function newest(run: RunSql, { tenant, kind, since, until, from, max }: LinkQuery): Promise<AuditLink[]> {
  const latest = until === undefined ? Number.MAX_SAFE_INTEGER : until + WRITTEN_LATE_MS;
  const [at, arrival] = !from || from.at > latest ? [latest, Number.MAX_SAFE_INTEGER] : [from.at, from.arrival];
  const values: unknown[] = [at, arrival, since ?? 0, until ?? Number.MAX_SAFE_INTEGER, max];
  const isOf = (column: string, value: string): string => `${column} = $${values.push(value)}`;
  const which = [
    ...(tenant === undefined ? [] : [isOf("tenant", tenant)]),
    kind === undefined ? "kind <> 'anchor'" : isOf("kind", kind),
  ];
  return run<AuditLink>(
    `SELECT ${LINK}, body FROM audit
     WHERE (at, arrival) <= ($1::bigint, $2::bigint) AND at >= $3 AND since <= $4 AND ${which.join(" AND ")}
     ORDER BY at DESC, arrival DESC LIMIT $5`,
    values,
  );
}

async function retentions(run: RunSql, max?: number): Promise<Retention[]> {
  const rows = await run<Parameters<typeof readRetention>[0]>(
    `SELECT ${PLACE}, arrival, at, tenant, body FROM audit WHERE kind = 'retention' ORDER BY at DESC, arrival DESC LIMIT $1`,
    [max ?? null],
  );
  return rows.map(readRetention).sort((a, b) => b.arrival - a.arrival);
}

async function anchorsEnd(run: RunSql): Promise<AuditHead | undefined> {
  const [end] = await run<AuditHead>("SELECT place AS number, hash FROM audit_anchored WHERE place > 0");
  return end;
}

async function isAnchorDue(run: RunSql, now: boolean): Promise<boolean> {
  const [due] = await run<{ isDue: boolean }>(
    `SELECT ($1 OR at / $2 <> berth_now() / $2) AND EXISTS (SELECT 1 FROM audit_chain WHERE place > anchored) AS "isDue"
     FROM audit_anchored`,
    [now, ANCHOR_MS],
  );
  return due!.isDue;
}

/**
 * Waits until all that has arrived is committed, and keeps others from appending: whoever reads an anchor has read all
 * that it holds, and nothing before it that it does not.
 */
async function anchor(run: RunSql, now: boolean): Promise<void> {
  await run(`SET LOCAL lock_timeout = ${ANCHOR_WAITS_MS}; LOCK TABLE audit_chain IN SHARE ROW EXCLUSIVE MODE`);
  // Another process may have been first.
  if (!(await isAnchorDue(run, now))) return;
  const [previous] = await run<AuditHead & { readonly at: number; readonly now: number }>(
    "SELECT place AS number, hash, at, berth_now() AS now FROM audit_anchored",
  );
  const grown = await run<AuditHead & { readonly tenant: string }>(
    `UPDATE audit_chain SET anchored = place WHERE place > anchored RETURNING tenant, place AS number, hash`,
  );
  const body = anchorBody(grown.sort((a, b) => (a.tenant < b.tenant ? -1 : 1)));
  const entry = { tenant: SERVICE, kind: "anchor", body, records: 0 } as const;
  const link = linkAfter(previous!, Math.max(previous!.now, previous!.at), entry);
  await run(ADD, columnsOf([{ ...link, body }]));
  await run("UPDATE audit_anchored SET place = $1, hash = $2, at = $3", [link.number, link.hash, link.at]);
}

/** Takes one step; true when there may be another. */
async function retain(run: RunSql, keep: Keep): Promise<boolean> {
  await lock(run, "retention", "");
  const link = await dueLink(run, keep);
  if (link) return await removeLinks(run, link, keep);
  const bodies = await dueBodies(run, keep);
  if (bodies) return await removeBodies(run, bodies, keep);
  if (!(await areLimitsStated(run, keep))) await appendAudit(run, recordOfLimits(keep));
  return false;
}

/** The time before which something goes. */
async function beforeOf(run: RunSql, days: number): Promise<number> {
  if (days === 0) return 0;
  const [times] = await run<Parameters<typeof presentOf>[0]>(
    `SELECT now, (SELECT max(at) FROM audit) AS latest,
       (SELECT max(at) FROM audit WHERE at < now - $1) AS "lastBefore",
       (SELECT min(at) FROM audit WHERE at >= now - $1) AS "firstFrom"
     FROM (SELECT berth_now() AS now OFFSET 0) AS clock`,
    [LEAP_MS],
  );
  return daysBefore(days, presentOf(times!));
}

type DueLink = Pick<RemovableLink, "chain" | "tenant"> & { readonly before: number };

/** The oldest link where it has to go. */
async function dueLink(run: RunSql, { auditDays }: Keep): Promise<DueLink | undefined> {
  const before = await beforeOf(run, auditDays);
  const [oldest] = await run<DueLink & { readonly at: number }>(
    `SELECT ${PLACE}, tenant, at, $1::bigint AS before FROM audit ORDER BY at, arrival LIMIT 1`,
    [before],
  );
  return oldest && oldest.at < before ? oldest : undefined;
}

async function removeLinks(run: RunSql, { chain, tenant, before }: DueLink, keep: Keep): Promise<true> {
  const oldest = await run<RemovableLink>(
    `SELECT ${LINK}, CASE WHEN ${IS_REMOVABLE} THEN bytes ELSE 0 END AS "keptBytes",
       CASE WHEN kind = 'retention' THEN body END AS said
     FROM audit WHERE tenant = $1 AND kind ${chain === null ? "=" : "<>"} 'anchor' ORDER BY at, arrival LIMIT $2`,
    [tenant, REMOVED_LINKS],
  );
  const removed = linksToRemove(oldest, before);
  await appendAudit(run, recordOfLinks(removed, headBefore(chain, await retentions(run)), keep));
  await run("DELETE FROM audit WHERE arrival = ANY ($1)", [removed.map(({ arrival }) => arrival)]);
  await uncount(
    run,
    removed.map(({ tenant: of, kind: each, keptBytes }) => ({ tenant: of, isCall: each === "call", bytes: keptBytes })),
  );
  const forgotten = removed.flatMap((link) => forgottenWith(link) ?? []);
  if (forgotten.length > 0)
    await run(
      `DELETE FROM audit_chain USING unnest($1::text[], $2::bigint[]) AS gone (chain, number)
       WHERE tenant = gone.chain AND place = number`,
      [forgotten.map((gone) => gone.chain), forgotten.map((gone) => gone.number)],
    );
  return true;
}

interface Uncounted {
  readonly tenant: string;
  readonly isCall: boolean;
  readonly bytes: number;
}

async function uncount(run: RunSql, removed: readonly Uncounted[]): Promise<void> {
  await run(
    `UPDATE audit_chain AS chain SET call_bytes = call_bytes - calls, other_bytes = other_bytes - others
     FROM (SELECT tenant, coalesce(sum(bytes) FILTER (WHERE is_call), 0) AS calls,
         coalesce(sum(bytes) FILTER (WHERE NOT is_call), 0) AS others
       FROM unnest($1::text[], $2::boolean[], $3::bigint[]) AS gone (tenant, is_call, bytes)
       GROUP BY tenant) AS sums
     WHERE chain.tenant = sums.tenant AND calls + others > 0`,
    [removed.map(({ tenant }) => tenant), removed.map(({ isCall }) => isCall), removed.map(({ bytes }) => bytes)],
  );
}

/** The first tenant some of whose bodies have to go. */
async function dueBodies(run: RunSql, keep: Keep): Promise<DueBodies | undefined> {
  const before = await beforeOf(run, keep.auditCallDays);
  const [due] = await run<Pick<DueBodies, "tenant" | "isCall"> & { readonly bytes: number }>(
    `SELECT tenant, is_call AS "isCall", bytes
     FROM (SELECT tenant, false AS is_call, other_bytes AS bytes FROM audit_chain WHERE other_bytes > 0
       UNION ALL SELECT tenant, true, call_bytes FROM audit_chain WHERE call_bytes > 0) AS kept
     WHERE bytes > CASE WHEN is_call THEN $1::bigint ELSE $2 END OR (is_call AND $3::bigint > (
       SELECT at FROM audit WHERE audit.tenant = kept.tenant AND kind = 'call' AND ${IS_REMOVABLE} ORDER BY arrival LIMIT 1))
     ORDER BY tenant, is_call LIMIT 1`,
    [...[true, false].map((isCall) => Math.min(bodyBytesMax(isCall, keep), Number.MAX_SAFE_INTEGER)), before],
  );
  if (!due) return undefined;
  const { tenant, isCall, bytes } = due;
  return { tenant, isCall, over: bytesOver(bytes, bodyBytesMax(isCall, keep)), before };
}

async function removeBodies(run: RunSql, due: DueBodies, keep: Keep): Promise<true> {
  const { tenant, isCall } = due;
  const oldest = await run<Parameters<typeof bodiesToRemove>[0][number]>(
    `SELECT place AS number, arrival, at, bytes, records FROM audit
     WHERE tenant = $1 AND (kind = 'call') IS ${isCall ? "TRUE" : "FALSE"} AND ${IS_REMOVABLE} ORDER BY arrival LIMIT $2`,
    [tenant, REMOVED_LINKS],
  );
  const removed = bodiesToRemove(oldest, due, keep);
  if (!removed) return true;
  await run("UPDATE audit SET body = NULL WHERE arrival = ANY ($1)", [removed.arrivals]);
  await uncount(run, [{ tenant, isCall, bytes: removed.bytes }]);
  await appendAudit(run, removed.record);
  return true;
}

async function areLimitsStated(run: RunSql, keep: Keep): Promise<boolean> {
  const stated = (await retentions(run, STATEMENTS)).find(({ limits }) => limits);
  const [clock] = await run<{ now: number }>("SELECT berth_now() AS now");
  return isStated(stated, keep, clock!.now);
}

function textOf(body: AuditEntry["body"]): string {
  return typeof body === "string" ? body : Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString();
}
