import { ALIAS } from "./aliases.ts";
import type { Dialect } from "./dialect.ts";
import { serverTables } from "./server-data.ts";
import { rows, type Steps, type Write } from "./steps.ts";

/** The most rows of each kind that one transaction removes. */
const AT_ONCE = 100;

/** No tenant has a claim on the row of `content`, nor may still take it back. */
export const UNHELD = `NOT EXISTS (SELECT 1 FROM tenant_content WHERE content_id = content.id)
  AND NOT EXISTS (SELECT 1 FROM left_content WHERE content_id = content.id)
  AND NOT EXISTS (SELECT 1 FROM derived WHERE content_id = content.id)`;

/**
 * Moves all claims on content from one name to another that has none; as the two functions below, in a transaction on the
 * tenant.
 */
export function* moveClaims(dialect: Dialect, from: string, to: string): Steps<void> {
  for (const sql of dialect.moveContentClaims) yield* rows(sql, [from, to]);
}

/** As `moveClaims`, for derived results, or the data of servers. */
export function* moveRows(table: "tenant_derived" | "server_data", from: string, to: string): Steps<void> {
  yield* rows(`UPDATE ${table} SET tenant = $2 WHERE tenant = $1`, [from, to]);
}

/**
 * Removes all that a tenant has. What takes long to remove is left under the alias `left`, for `removeClaims`. Of the
 * tenant's changes those are removed that fulfil a condition. Returns the number of its names.
 */
export function* purge(dialect: Dialect, tenant: string, left: string, changes = "true"): Steps<number> {
  yield* moveClaims(dialect, tenant, left);
  yield* moveRows("tenant_derived", tenant, left);
  yield* moveRows("server_data", tenant, left);
  return yield* dialect.removeTenantRows(tenant, changes);
}

/**
 * Removes the claims and the data of servers under an alias, with everything that no other tenant holds, in
 * transactions short enough for others to write in between. Returns the number of contents that were removed.
 */
export async function removeClaims(write: Write, dialect: Dialect, alias: string): Promise<number> {
  for (let total = 0; ;) {
    const { isOver, removed } = await write(() => removeSome(dialect, alias));
    total += removed;
    if (isOver) return total;
  }
}

function* removeSome(dialect: Dialect, alias: string): Steps<{ isOver: boolean; removed: number }> {
  const some = (query: string): string => dialect.removable(`${query} LIMIT ${AT_ONCE}`);
  const claims = yield* rows<{ id: number }>(
    `DELETE FROM tenant_content WHERE tenant = $1 AND content_id IN (${some(
      `SELECT content.id, octet_length(bytes) AS bytes FROM tenant_content JOIN content ON content.id = content_id
       WHERE tenant = $1`,
    )}) RETURNING content_id AS id`,
    [alias],
  );
  const results = yield* rows<{ key: string }>(
    `DELETE FROM tenant_derived WHERE tenant = $1 AND key IN (
       SELECT key FROM tenant_derived WHERE tenant = $1 LIMIT ${AT_ONCE}) RETURNING key`,
    [alias],
  );
  let others = 0;
  for (const { table, long } of serverTables) {
    const removed = yield* rows(
      `DELETE FROM ${table} WHERE id IN (${some(
        `SELECT ${table}.id, octet_length(${long}) AS bytes FROM server_data JOIN ${table} ON server_id = server_data.id
         WHERE tenant = $1`,
      )}) RETURNING 1`,
      [alias],
    );
    others += removed.length;
  }
  if (others === 0) yield* rows("DELETE FROM server_data WHERE tenant = $1", [alias]);
  // Of an import that was not published.
  yield* rows("DELETE FROM name_change WHERE tenant = $1", [alias]);
  const removed = yield* removeUnheld(dialect, idsOf(claims));
  const gone = yield* removeResults(dialect, keysOf(results));
  yield* removeUnheld(dialect, idsOf(gone));
  return { isOver: claims.length + results.length + others === 0, removed: removed.length };
}

export interface SizedContent {
  readonly id: number;
  readonly bytes: number;
  readonly isPackage: boolean | number;
}

/**
 * Removes those of the contents that no tenant has a claim on, and returns them. One that another transaction is about to
 * claim is left to the next collection.
 */
export function* removeUnheld(dialect: Dialect, ids: readonly number[]): Steps<SizedContent[]> {
  if (ids.length === 0) return [];
  const there = yield* rows<SizedContent>(
    `SELECT id, octet_length(bytes) AS bytes, ${dialect.isPackage} AS "isPackage" FROM content
     WHERE ${dialect.oneOf("id", "$1")} ${dialect.lockUnlocked}`,
    [ids],
  );
  const removed = yield* rows<{ id: number }>(
    `DELETE FROM content WHERE ${dialect.oneOf("id", "$1")} AND ${UNHELD} RETURNING id`,
    [idsOf(there)],
  );
  const gone = new Set(idsOf(removed));
  return there.filter(({ id }) => gone.has(id));
}

/** As `removeUnheld`, for derived results; returns their contents. */
export function* removeResults(
  dialect: Dialect,
  keys: readonly string[],
): Steps<{ readonly id: number; readonly bytes: number }[]> {
  if (keys.length === 0) return [];
  const there = yield* rows<{ key: string }>(
    `SELECT key FROM derived WHERE ${dialect.oneOf("key", "$1")} ${dialect.lockUnlocked}`,
    [keys],
  );
  return yield* rows(
    `DELETE FROM derived WHERE ${dialect.oneOf("key", "$1")}
       AND NOT EXISTS (SELECT 1 FROM tenant_derived WHERE tenant_derived.key = derived.key)
     RETURNING content_id AS id, (SELECT octet_length(bytes) FROM content WHERE content.id = content_id) AS bytes`,
    [keysOf(there)],
  );
}

/** The ids of `aliasOf` under which there are claims, data of servers or changes. */
export function* leftIds(): Steps<string[]> {
  const tables = ["tenant_content", "tenant_derived", "server_data", "name_change"];
  const found = yield* rows<{ tenant: string }>(
    tables
      .map((table) => `SELECT DISTINCT tenant FROM ${table} WHERE tenant > '${ALIAS}' AND tenant < '${ALIAS}~'`)
      .join(" UNION "),
  );
  return [...new Set(found.map(({ tenant }) => tenant.slice(ALIAS.length).split("-")[0]!))];
}

export function idsOf(found: readonly { readonly id: number }[]): number[] {
  return found.map(({ id }) => id);
}

export function keysOf(found: readonly { readonly key: string }[]): string[] {
  return found.map(({ key }) => key);
}
