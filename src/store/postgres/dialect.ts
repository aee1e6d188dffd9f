import { GENESIS } from "../../audit/chain.ts";
import type { AddedLink, ChainEnd, Dialect } from "../dialect.ts";
import { rows } from "../steps.ts";
import { lockOf } from "./database.ts";

/** Rows of state that are read together: their values may be large, and arrive as text. */
const STATE_ROWS = 50;
/** Appending transactions wait for an anchor while it waits for others that append. */
const ANCHOR_WAITS_MS = 2_000;

/** Adds links in their order. */
const ADD_LINKS = `INSERT INTO audit (place, at, since, tenant, kind, records, bytes, digest, hash, body)
  SELECT place, at, since, tenant, kind, records, bytes, digest, hash, body
  FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::bigint[],
    $8::bytea[], $9::bytea[], $10::text[])
    WITH ORDINALITY AS link (place, at, since, tenant, kind, records, bytes, digest, hash, body, turn)
  ORDER BY turn`;

/** Adds retained calls in their order. */
const ADD_CALLS = `WITH new AS (
    SELECT * FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::bigint[], $8::text[], $9::text[])
      WITH ORDINALITY AS each (server, at, expires_at, tool, outcome, micros, principal, body, turn)),
  place AS (
    INSERT INTO retained_call_server AS before (tenant, server, calls, bytes)
    SELECT $1, server, count(*), sum(octet_length(body)) FROM new GROUP BY server
    ON CONFLICT (tenant, server) DO UPDATE SET calls = before.calls + excluded.calls, bytes = before.bytes + excluded.bytes
    RETURNING id, server)
  INSERT INTO retained_call (server_id, at, expires_at, tool, outcome, micros, principal, body)
  SELECT id, at, expires_at, tool, outcome, micros, principal, body FROM new JOIN place USING (server) ORDER BY turn`;

export const postgresDialect: Dialect = {
  oneOf: (column, parameter) => `${column} = ANY (${parameter})`,
  texts: (parameter) => `unnest(${parameter}::text[]) AS each (value)`,
  isLeaf: "is_leaf",
  isPackage: "is_package",
  changeCounter: "name_change_counter",
  keepsLatestChange: false,
  lockUnlocked: "FOR UPDATE SKIP LOCKED",
  // Other transactions write meanwhile, and each one costs round trips.
  removable: (query) => `SELECT id FROM (${query}) AS found`,
  removedBytesMax: Infinity,

  *addCalls(tenant, calls) {
    const columns = ["server", "at", "expiresAt", "tool", "outcome", "micros", "principal", "body"] as const;
    yield* rows(ADD_CALLS, [tenant, ...columns.map((column) => calls.map((call) => call[column]))]);
  },

  moveContentClaims: [
    `WITH noted AS (DELETE FROM left_content WHERE tenant = $1 RETURNING content_id),
       moved AS (UPDATE tenant_content SET tenant = $2 WHERE tenant = $1)
     INSERT INTO tenant_content (tenant, content_id)
     SELECT $2, content_id FROM noted
     WHERE NOT EXISTS (SELECT 1 FROM tenant_content AS held WHERE held.tenant = $1 AND held.content_id = noted.content_id)`,
  ],

  *removeTenantRows(tenant, changes, keepsSecrets = false) {
    const [names] = yield* rows<{ count: number }>(
      `WITH names AS (DELETE FROM name WHERE tenant = $1 RETURNING 1),
         changes AS (DELETE FROM name_change WHERE tenant = $1 AND ${changes}),
         records AS (DELETE FROM record WHERE tenant = $1),
         secrets AS (DELETE FROM secret WHERE tenant = $1 AND ${!keepsSecrets})
       SELECT count(*) FROM names`,
      [tenant],
    );
    return names!.count;
  },

  addLeaves: `UPDATE content SET is_leaf = true
    WHERE id IN (SELECT id FROM content WHERE cid = ANY ($1) FOR NO KEY UPDATE SKIP LOCKED)`,

  *stateValues(tenant, cursor = { server: 0, key: "" }) {
    const found = yield* rows<{ server: number; key: string; value: Uint8Array }>(
      `SELECT server_id AS server, key, value FROM state JOIN state_server AS place ON place.id = server_id
       WHERE tenant = $1 AND (server_id, key) > ($2::bigint, $3) ORDER BY server_id, key LIMIT ${STATE_ROWS}`,
      [tenant, cursor.server, cursor.key],
    );
    return { values: found.map(({ value }) => value), next: found.length < STATE_ROWS ? undefined : found.at(-1) };
  },

  *settleNoted(tenant, { back, gone, hidden, later }) {
    yield* rows(
      `WITH back AS (DELETE FROM left_content WHERE tenant = $1 AND content_id = ANY ($2) RETURNING content_id),
         gone AS (DELETE FROM left_content WHERE tenant = $1 AND content_id = ANY ($3)),
         hidden AS (DELETE FROM tenant_content WHERE tenant = $1 AND content_id = ANY ($4)),
         later AS (UPDATE left_content SET since = berth_now() WHERE tenant = $1 AND content_id = ANY ($5))
       INSERT INTO tenant_content (tenant, content_id) SELECT $1, content_id FROM back ON CONFLICT DO NOTHING`,
      [tenant, back, gone, hidden, later],
    );
  },

  stored: (column) => column,

  // In the order of their tenants, as all transactions take them.
  lockChainEnds: (tenants) =>
    rows<ChainEnd>(
      `INSERT INTO audit_chain AS chain (tenant, place, hash, at, anchored, call_bytes, other_bytes)
       SELECT tenant, 0, $2::bytea, 0, 0, 0, 0 FROM unnest($1::text[]) AS tenant
       ORDER BY tenant COLLATE "C"
       ON CONFLICT (tenant) DO UPDATE SET place = chain.place
       RETURNING tenant, place AS number, hash, at, berth_now() AS now, 0 AS "callBytes", 0 AS "otherBytes"`,
      [tenants, GENESIS.hash],
    ),

  *addLinks(links, ends) {
    if (ends.length === 0) return void (yield* rows(ADD_LINKS, columnsOf(links)));
    const columns = ["tenant", "number", "hash", "at", "callBytes", "otherBytes"] as const;
    yield* rows(
      `WITH added AS (${ADD_LINKS})
       UPDATE audit_chain AS chain SET place = grown.place, hash = grown.hash, at = grown.at,
         call_bytes = call_bytes + more_calls, other_bytes = other_bytes + more
       FROM unnest($11::text[], $12::bigint[], $13::bytea[], $14::bigint[], $15::bigint[], $16::bigint[])
         AS grown (tenant, place, hash, at, more_calls, more)
       WHERE chain.tenant = grown.tenant`,
      [...columnsOf(links), ...columns.map((column) => ends.map((end) => end[column]))],
    );
  },

  lockChains: `SET LOCAL lock_timeout = ${ANCHOR_WAITS_MS}; LOCK TABLE audit_chain IN SHARE ROW EXCLUSIVE MODE`,
  lockRetention: lockOf("retention", ""),
};

/** The parameters of `ADD_LINKS`. */
function columnsOf(links: readonly AddedLink[]): unknown[] {
  const columns = ["number", "at", "since", "tenant", "kind", "records", "bytes", "digest", "hash"] as const;
  const bodies = links.map(({ body }) =>
    typeof body === "string" ? body : Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString(),
  );
  return [...columns.map((column) => links.map((link) => link[column])), bodies];
}
