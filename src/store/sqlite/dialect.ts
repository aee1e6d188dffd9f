import { GENESIS } from "../../audit/chain.ts";
import type { ChainEnd, Dialect } from "../dialect.ts";
import { rows } from "../steps.ts";
import { storeNow } from "./clock.ts";
import { MUST_SCRUB } from "./scrub.ts";

const oneOf = (column: string, parameter: string): string => `${column} IN (SELECT value FROM json_each(${parameter}))`;

export const sqliteDialect: Dialect = {
  oneOf,
  textTable: (parameter) => `json_each(${parameter})`,
  isLeaf: "EXISTS (SELECT 1 FROM content_leaf WHERE content_leaf.content_id = content.id)",
  isPackage: "coalesce((SELECT is_package FROM content_leaf WHERE content_leaf.content_id = content.id), 0)",
  changeCounter: "(SELECT coalesce(max(id), 0) AS latest FROM name_change)",
  keepsLatestChange: true,
  skipLocked: "",

  // Bounded, because other threads and processes wait during a write.
  selectRemovable: (query) =>
    `SELECT id FROM (SELECT id, sum(bytes) OVER (ORDER BY id) - bytes AS before FROM (${query})) WHERE before < 524288`,
  removedBytesMax: 4 * 1024 * 1024,

  *putValues(tenant, values) {
    for (const { kind, server, key, value, isJson, version, changedAt, expiresAt, growth } of values) {
      const [owner] = yield* rows<{ id: number }>(INCREASE_SUMS, [
        tenant,
        kind,
        server,
        growth.items,
        growth.bytes,
        version,
      ]);
      yield* rows(PUT_VALUE, [owner!.id, key, value, isJson, version, changedAt, expiresAt]);
    }
  },

  *addCalls(tenant, calls) {
    for (const { server, at, expiresAt, tool, outcome, micros, principal, body } of calls) {
      const [owner] = yield* rows<{ id: number }>(INCREASE_SUMS, [
        tenant,
        "calls",
        server,
        1,
        Buffer.byteLength(body),
        0,
      ]);
      yield* rows(ADD_CALL, [owner!.id, at, expiresAt, tool, outcome, micros, principal, body]);
    }
  },

  *removeRows(table, size, ids, values) {
    const removed = yield* rows<{ server: number; bytes: number }>(
      `DELETE FROM ${table} WHERE id IN (${ids}) RETURNING server_id AS server, ${size} AS bytes`,
      values,
    );
    yield* rows(DECREASE_SUMS, [removed.map(({ server, bytes }) => [server, bytes])]);
    return removed.length;
  },

  moveContentClaims: [
    "UPDATE tenant_content SET tenant = $2 WHERE tenant = $1",
    "INSERT OR IGNORE INTO tenant_content (tenant, content_id) SELECT $2, content_id FROM left_content WHERE tenant = $1",
    "DELETE FROM left_content WHERE tenant = $1",
  ],

  *removeTenantRows(tenant, changes, keepsSecrets) {
    const names = yield* rows("DELETE FROM name WHERE tenant = $1 RETURNING 1", [tenant]);
    yield* rows(`DELETE FROM name_change WHERE tenant = $1 AND ${changes}`, [tenant]);
    yield* rows("DELETE FROM record WHERE tenant = $1", [tenant]);
    if (!keepsSecrets) yield* rows("DELETE FROM secret WHERE tenant = $1", [tenant]);
    return names.length;
  },

  requestErasure: `UPDATE scrubbed SET through = ${MUST_SCRUB}`,

  // Packages were marked when they were written.
  addLeaves: `INSERT OR IGNORE INTO content_leaf (content_id, is_package) SELECT id, 0 FROM content WHERE ${oneOf("cid", "$1")}`,

  *settleNoted(tenant, { reclaimed, removed, unclaimed, restarted }) {
    yield* rows("INSERT OR IGNORE INTO tenant_content (tenant, content_id) SELECT $1, value FROM json_each($2)", [
      tenant,
      reclaimed,
    ]);
    const condition = `WHERE tenant = $1 AND ${oneOf("content_id", "$2")}`;
    yield* rows(`DELETE FROM left_content ${condition}`, [tenant, [...reclaimed, ...removed]]);
    yield* rows(`DELETE FROM tenant_content ${condition}`, [tenant, unclaimed]);
    yield* rows(`UPDATE left_content SET since = berth_now() ${condition}`, [tenant, restarted]);
  },

  typed: (column, type) => `CAST(${column} AS ${type})`,

  *lockChainEnds(tenants) {
    const ends: ChainEnd[] = [];
    for (const tenant of tenants) {
      const [end = { ...GENESIS, at: 0 }] = yield* rows<Pick<ChainEnd, "number" | "hash" | "at">>(CHAIN_END, [tenant]);
      ends.push({ tenant, ...end, now: storeNow(), callBytes: 0, otherBytes: 0 });
    }
    return ends;
  },

  *addLinks(links, ends) {
    for (const { number, at, since, tenant, kind, records, bytes, digest, hash, body } of links)
      yield* rows(ADD_LINK, [number, at, since, tenant, kind, records, bytes, digest, hash, body]);
    for (const { tenant, number, hash, at, callBytes, otherBytes } of ends)
      yield* rows(GROW_CHAIN, [tenant, number, hash, at, callBytes, otherBytes]);
  },
};

const CHAIN_END = `SELECT CAST(place AS INTEGER) AS number, CAST(hash AS BLOB) AS hash, CAST(at AS INTEGER) AS at
  FROM audit_chain WHERE tenant = $1`;
const ADD_LINK = `INSERT INTO audit (place, at, since, tenant, kind, records, bytes, digest, hash, body)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, CAST($10 AS TEXT))`;
const GROW_CHAIN = `INSERT INTO audit_chain (tenant, place, hash, at, anchored, call_bytes, other_bytes)
  VALUES ($1, $2, $3, $4, 0, $5, $6)
  ON CONFLICT (tenant) DO UPDATE SET place = excluded.place, hash = excluded.hash, at = excluded.at,
    call_bytes = call_bytes + excluded.call_bytes, other_bytes = other_bytes + excluded.other_bytes`;
const INCREASE_SUMS = `INSERT INTO server_data (tenant, kind, server, items, bytes, version) VALUES ($1, $2, $3, $4, $5, $6)
  ON CONFLICT (tenant, kind, server) DO UPDATE SET items = items + excluded.items, bytes = bytes + excluded.bytes,
    version = max(version, excluded.version) RETURNING id`;
const DECREASE_SUMS = `UPDATE server_data SET items = server_data.items - gone.items, bytes = server_data.bytes - gone.bytes
  FROM (SELECT value ->> 0 AS server_id, count(*) AS items, sum(value ->> 1) AS bytes FROM json_each($1) GROUP BY 1) AS gone
  WHERE id = server_id`;
const PUT_VALUE = `INSERT INTO server_value (server_id, key, value, is_json, version, changed_at, expires_at)
  VALUES ($1, $2, $3, $4, $5, $6, $7)
  ON CONFLICT (server_id, key) DO UPDATE SET value = excluded.value, is_json = excluded.is_json,
    version = excluded.version, changed_at = excluded.changed_at, expires_at = excluded.expires_at`;
const ADD_CALL = `INSERT INTO retained_call (server_id, at, expires_at, tool, outcome, micros, principal, body)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`;
