import type { Dialect } from "../dialect.ts";
import { rows } from "../steps.ts";

/** Rows of state that are read together: their values may be large, and arrive as text. */
const STATE_ROWS = 50;

export const postgresDialect: Dialect = {
  oneOf: (column, parameter) => `${column} = ANY (${parameter})`,
  isLeaf: "is_leaf",
  isPackage: "is_package",
  changeCounter: "name_change_counter",
  keepsLatestChange: false,
  lockUnlocked: "FOR UPDATE SKIP LOCKED",
  // Other transactions write meanwhile, and each one costs round trips.
  removable: (query) => `SELECT id FROM (${query}) AS found`,
  removedBytesMax: Infinity,

  moveContentClaims: [
    `WITH noted AS (DELETE FROM left_content WHERE tenant = $1 RETURNING content_id),
       moved AS (UPDATE tenant_content SET tenant = $2 WHERE tenant = $1)
     INSERT INTO tenant_content (tenant, content_id)
     SELECT $2, content_id FROM noted
     WHERE NOT EXISTS (SELECT 1 FROM tenant_content AS held WHERE held.tenant = $1 AND held.content_id = noted.content_id)`,
  ],

  *removeTenantRows(tenant, changes) {
    const [names] = yield* rows<{ count: number }>(
      "WITH gone AS (DELETE FROM name WHERE tenant = $1 RETURNING 1) SELECT count(*) FROM gone",
      [tenant],
    );
    yield* rows(
      `WITH changes AS (DELETE FROM name_change WHERE tenant = $1 AND ${changes}), records AS (DELETE FROM record WHERE tenant = $1)
       DELETE FROM secret WHERE tenant = $1`,
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
};
