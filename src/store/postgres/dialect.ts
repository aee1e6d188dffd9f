import { GENESIS } from "../../audit/chain.ts";
import type { AddedLink, ChainEnd, Dialect } from "../dialect.ts";
import { rows } from "../steps.ts";
import { lockStatement } from "./database.ts";

/** How long an anchor waits for appending transactions, which wait for it in turn. */
const ANCHOR_LOCK_TIMEOUT_MS = 2_000;

const ADD_LINKS = `INSERT INTO audit (place, at, since, tenant, kind, records, bytes, digest, hash, body)
  SELECT place, at, since, tenant, kind, records, bytes, digest, hash, body
  FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::bigint[],
    $8::bytea[], $9::bytea[], $10::text[])
    WITH ORDINALITY AS link (place, at, since, tenant, kind, records, bytes, digest, hash, body, turn)
  ORDER BY turn`;

const INCREASE_SUMS = `ON CONFLICT (tenant, kind, server) DO UPDATE SET items = before.items + excluded.items,
  bytes = before.bytes + excluded.bytes, version = greatest(before.version, excluded.version)`;

const PUT_VALUES = `WITH new AS (
    SELECT * FROM unnest($2::text[], $3::text[], $4::text[], $5::bytea[], $6::boolean[], $7::bigint[], $8::bigint[], $9::bigint[],
        $10::bigint[], $11::bigint[])
      AS each (kind, server, key, value, is_json, version, changed_at, expires_at, items, bytes)),
  owner AS (
    INSERT INTO server_data AS before (tenant, kind, server, items, bytes, version)
    SELECT $1, kind, server, sum(items), sum(bytes), max(version) FROM new GROUP BY kind, server ${INCREASE_SUMS}
    RETURNING id, kind, server)
  INSERT INTO server_value (server_id, key, value, is_json, version, changed_at, expires_at)
  SELECT id, key, value, is_json, new.version, changed_at, expires_at FROM new JOIN owner USING (kind, server)
  ON CONFLICT (server_id, key) DO UPDATE SET value = excluded.value, is_json = excluded.is_json,
    version = excluded.version, changed_at = excluded.changed_at, expires_at = excluded.expires_at`;

const ADD_CALLS = `WITH new AS (
    SELECT * FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::bigint[], $8::text[], $9::text[])
      WITH ORDINALITY AS each (server, at, expires_at, tool, outcome, micros, principal, body, turn)),
  place AS (
    INSERT INTO server_data AS before (tenant, kind, server, items, bytes, version)
    SELECT $1, 'calls', server, count(*), sum(octet_length(body)), 0 FROM new GROUP BY server ${INCREASE_SUMS}
    RETURNING id, server)
  INSERT INTO retained_call (server_id, at, expires_at, tool, outcome, micros, principal, body)
  SELECT id, at, expires_at, tool, outcome, micros, principal, body FROM new JOIN place USING (server) ORDER BY turn`;

export const postgresDialect: Dialect = {
  oneOf: (column, parameter) => `${column} = ANY (${parameter})`,
  textTable: (parameter) => `unnest(${parameter}::text[]) AS each (value)`,
  isLeaf: "is_leaf",
  isPackage: "is_package",
  changeCounter: "name_change_counter",
  keepsLatestChange: false,
  skipLocked: "FOR UPDATE SKIP LOCKED",
  // No bound: other transactions can write concurrently, and each additional one costs round trips.
  selectRemovable: (query) => `SELECT id FROM (${query}) AS found`,
  removedBytesMax: Infinity,

  *putValues(tenant, values) {
    const columns = ["kind", "server", "key", "value", "isJson", "version", "changedAt", "expiresAt"] as const;
    const sums = ["items", "bytes"] as const;
    yield* rows(PUT_VALUES, [
      tenant,
      ...columns.map((column) => values.map((each) => each[column])),
      ...sums.map((sum) => values.map(({ growth }) => growth[sum])),
    ]);
  },

  *addCalls(tenant, calls) {
    const columns = ["server", "at", "expiresAt", "tool", "outcome", "micros", "principal", "body"] as const;
    yield* rows(ADD_CALLS, [tenant, ...columns.map((column) => calls.map((call) => call[column]))]);
  },

  *removeRows(table, size, ids, values) {
    const [removed] = yield* rows<{ count: number }>(
      `WITH gone AS (DELETE FROM ${table} WHERE id IN (${ids}) RETURNING server_id, ${size} AS length),
         sums AS (SELECT server_id, count(*) AS items, sum(length) AS bytes FROM gone GROUP BY server_id),
         shrunk AS (
           UPDATE server_data AS before SET items = before.items - sums.items, bytes = before.bytes - sums.bytes
           FROM sums WHERE id = server_id)
       SELECT count(*) FROM gone`,
      values,
    );
    return removed!.count;
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

  *settleNoted(tenant, { reclaimed, removed, unclaimed, restarted }) {
    yield* rows(
      `WITH back AS (DELETE FROM left_content WHERE tenant = $1 AND content_id = ANY ($2) RETURNING content_id),
         gone AS (DELETE FROM left_content WHERE tenant = $1 AND content_id = ANY ($3)),
         hidden AS (DELETE FROM tenant_content WHERE tenant = $1 AND content_id = ANY ($4)),
         later AS (UPDATE left_content SET since = berth_now() WHERE tenant = $1 AND content_id = ANY ($5))
       INSERT INTO tenant_content (tenant, content_id) SELECT $1, content_id FROM back ON CONFLICT DO NOTHING`,
      [tenant, reclaimed, removed, unclaimed, restarted],
    );
  },

  typed: (column) => column,

  // In the order of tenants, as in all transactions, to avoid deadlocks.
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
    if (ends.length === 0) return void (yield* rows(ADD_LINKS, linkParameters(links)));
    const columns = ["tenant", "number", "hash", "at", "callBytes", "otherBytes"] as const;
    yield* rows(
      `WITH added AS (${ADD_LINKS})
       UPDATE audit_chain AS chain SET place = grown.place, hash = grown.hash, at = grown.at,
         call_bytes = call_bytes + more_calls, other_bytes = other_bytes + more
       FROM unnest($11::text[], $12::bigint[], $13::bytea[], $14::bigint[], $15::bigint[], $16::bigint[])
         AS grown (tenant, place, hash, at, more_calls, more)
       WHERE chain.tenant = grown.tenant`,
      [...linkParameters(links), ...columns.map((column) => ends.map((end) => end[column]))],
    );
  },

  lockChains: `SET LOCAL lock_timeout = ${ANCHOR_LOCK_TIMEOUT_MS}; LOCK TABLE audit_chain IN SHARE ROW EXCLUSIVE MODE`,
  lockRetention: lockStatement("retention", ""),
};

function linkParameters(links: readonly AddedLink[]): unknown[] {
  const columns = ["number", "at", "since", "tenant", "kind", "records", "bytes", "digest", "hash"] as const;
  const bodies = links.map(({ body }) =>
    typeof body === "string" ? body : Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString(),
  );
  return [...columns.map((column) => links.map((link) => link[column])), bodies];
}
