import { GENESIS } from "../../audit/chain.ts";
import type { ChainEnd, Dialect } from "../dialect.ts";
import { rows } from "../steps.ts";
import { storeNow } from "./clock.ts";
import { MUST_SCRUB } from "./scrub.ts";

/** Rows of state that are read together. */
const STATE_ROWS = 200;

const oneOf = (column: string, parameter: string): string => `${column} IN (SELECT value FROM json_each(${parameter}))`;

export const sqliteDialect: Dialect = {
  oneOf,
  texts: (parameter) => `json_each(${parameter})`,
  isLeaf: "EXISTS (SELECT 1 FROM content_leaf WHERE content_leaf.content_id = content.id)",
  isPackage: "coalesce((SELECT is_package FROM content_leaf WHERE content_leaf.content_id = content.id), 0)",
  changeCounter: "(SELECT coalesce(max(id), 0) AS latest FROM name_change)",
  keepsLatestChange: true,
  lockUnlocked: "",

  // Other threads and processes wait while one writes.
  removable: (query) =>
    `SELECT id FROM (SELECT id, sum(bytes) OVER (ORDER BY id) - bytes AS before FROM (${query})) WHERE before < 524288`,
  removedBytesMax: 4 * 1024 * 1024,

  *addCalls(tenant, calls) {
    for (const { server, at, expiresAt, tool, outcome, micros, principal, body } of calls) {
      const [place] = yield* rows<{ id: number }>(GROW_CALLS, [tenant, server, Buffer.byteLength(body)]);
      yield* rows(ADD_CALL, [place!.id, at, expiresAt, tool, outcome, micros, principal, body]);
    }
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

  mustErase: `UPDATE scrubbed SET through = ${MUST_SCRUB}`,

  // Packages were marked when they were written.
  addLeaves: `INSERT OR IGNORE INTO content_leaf (content_id, is_package) SELECT id, 0 FROM content WHERE ${oneOf("cid", "$1")}`,

  // Server by server, as each index has it: SQLite would sort all state of the tenant for each part.
  *stateValues(tenant, cursor = { server: "", key: "" }) {
    const after = cursor.key === "" ? ">" : "=";
    const [place] = yield* rows<{ id: number; server: string }>(
      `SELECT id, server FROM state_server WHERE tenant = $1 AND server ${after} $2 ORDER BY server LIMIT 1`,
      [tenant, cursor.server],
    );
    if (!place) return { values: [], next: undefined };
    const found = yield* rows<{ key: string; value: Uint8Array }>(
      `SELECT key, value FROM state WHERE server_id = $1 AND key > $2 ORDER BY key LIMIT ${STATE_ROWS}`,
      [place.id, cursor.key],
    );
    const key = found.length < STATE_ROWS ? "" : found.at(-1)!.key;
    return { values: found.map(({ value }) => value), next: { server: place.server, key } };
  },

  *settleNoted(tenant, { back, gone, hidden, later }) {
    yield* rows("INSERT OR IGNORE INTO tenant_content (tenant, content_id) SELECT $1, value FROM json_each($2)", [
      tenant,
      back,
    ]);
    const these = `WHERE tenant = $1 AND ${oneOf("content_id", "$2")}`;
    yield* rows(`DELETE FROM left_content ${these}`, [tenant, [...back, ...gone]]);
    yield* rows(`DELETE FROM tenant_content ${these}`, [tenant, hidden]);
    yield* rows(`UPDATE left_content SET since = berth_now() ${these}`, [tenant, later]);
  },

  stored: (column, type) => `CAST(${column} AS ${type})`,

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
const GROW_CALLS = `INSERT INTO retained_call_server (tenant, server, calls, bytes) VALUES ($1, $2, 1, $3)
  ON CONFLICT (tenant, server) DO UPDATE SET calls = calls + 1, bytes = bytes + excluded.bytes RETURNING id`;
const ADD_CALL = `INSERT INTO retained_call (server_id, at, expires_at, tool, outcome, micros, principal, body)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`;
