import type { AuditEntry, AuditHead } from "../../audit/audit-entry.ts";
import { linkAfter } from "../../audit/chain.ts";
import type { Run } from "./database.ts";

/** Records an event in the transaction of its change, after all locks on tenants and contents. */
export function appendAudit(run: Run, entry: AuditEntry): Promise<void> {
  return appendAllAudit(run, [entry]);
}

/** As `appendAudit`, in this order. Each chain stays locked until the transaction ends. */
export async function appendAllAudit(run: Run, entries: readonly AuditEntry[]): Promise<void> {
  if (entries.length === 0) return;
  const ends = await lockEnds(run, [...new Set(entries.map(({ tenant }) => tenant))]);
  const links = entries.map((entry) => {
    const end = ends.get(entry.tenant)!;
    // The chain orders the times, whatever happens to the clock.
    const link = linkAfter(end, Math.max(end.now, end.at), entry);
    Object.assign(end, { number: link.number, hash: link.hash, at: link.at });
    // A record of a removal stays for as long as its link.
    if (entry.kind === "call") end.callBytes += link.bytes;
    else if (entry.kind !== "retention") end.otherBytes += link.bytes;
    return { ...link, body: textOf(entry.body) };
  });
  await addLinks(run, links);
  const columns = ["tenant", "number", "hash", "at", "callBytes", "otherBytes"] as const;
  await run(
    `UPDATE audit_chain AS chain SET place = grown.place, hash = grown.hash, at = grown.at,
       call_bytes = call_bytes + more_calls, other_bytes = other_bytes + more
     FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[])
       AS grown (tenant, place, hash, at, more_calls, more)
     WHERE chain.tenant = grown.tenant`,
    columns.map((column) => [...ends.values()].map((end) => end[column])),
  );
}

interface End extends AuditHead {
  readonly tenant: string;
  readonly at: number;
  readonly now: number;
  callBytes: number;
  otherBytes: number;
}

/** The ends of chains, which begin where there was none, in the order of their tenants, as all take them. */
async function lockEnds(run: Run, tenants: readonly string[]): Promise<Map<string, End>> {
  const ends = await run<End>(
    `INSERT INTO audit_chain AS chain (tenant, place, hash, at, anchored, call_bytes, other_bytes)
     SELECT tenant, 0, origin_hash, 0, 0, 0, 0 FROM audit_anchored, unnest($1::text[]) AS tenant
     ORDER BY tenant COLLATE "C"
     ON CONFLICT (tenant) DO UPDATE SET place = chain.place
     RETURNING tenant, place AS number, hash, at, berth_now() AS now, 0 AS "callBytes", 0 AS "otherBytes"`,
    [tenants],
  );
  return new Map(ends.map((end) => [end.tenant, end]));
}

async function addLinks(run: Run, links: readonly (ReturnType<typeof linkAfter> & { body: string })[]): Promise<void> {
  const columns = ["number", "at", "since", "tenant", "kind", "records", "bytes", "digest", "hash", "body"] as const;
  await run(
    `INSERT INTO audit (place, at, since, tenant, kind, records, bytes, digest, hash, body)
     SELECT place, at, since, tenant, kind, records, bytes, digest, hash, body
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::bigint[],
       $8::bytea[], $9::bytea[], $10::text[])
       WITH ORDINALITY AS link (place, at, since, tenant, kind, records, bytes, digest, hash, body, turn)
     ORDER BY turn`,
    columns.map((column) => links.map((link) => link[column])),
  );
}

function textOf(body: AuditEntry["body"]): string {
  return typeof body === "string" ? body : Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString();
}
