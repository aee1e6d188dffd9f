import { ALIAS } from "./aliases.ts";
import type { Dialect } from "./dialect.ts";
import { serverTables } from "./server-data.ts";
import { rows, type Steps, type Write } from "./steps.ts";

/** The maximum number of rows of each kind that one transaction removes. */
const AT_ONCE = 100;

/** A condition on `content`: no tenant has a claim on the row or can still recover it. */
export const UNHELD = `NOT EXISTS (SELECT 1 FROM tenant_content WHERE content_id = content.id)
  AND NOT EXISTS (SELECT 1 FROM left_content WHERE content_id = content.id)
  AND NOT EXISTS (SELECT 1 FROM derived WHERE content_id = content.id)`;

/**
 * Moves all claims on content from one name to another that has none. Like the next two functions, it runs in a
 * transaction on the tenant.
 */
export function* moveClaims(dialect: Dialect, from: string, to: string): Steps<void> {
  for (const sql of dialect.moveContentClaims) yield* rows(sql, [from, to]);
}

/** The same for derived results, or for the data of servers. */
export function* moveRows(table: "tenant_derived" | "server_data", from: string, to: string): Steps<void> {
  yield* rows(`UPDATE ${table} SET tenant = $2 WHERE tenant = $1`, [from, to]);
}

/**
 * Removes everything that a tenant has, including the changes that match a condition. Data that takes long to remove is
 * moved to the alias `left`, for `removeClaims`. Returns the number of names.
 */
export function* purge(dialect: Dialect, tenant: string, left: string, changes = "true"): Steps<number> {
  yield* moveClaims(dialect, tenant, left);
  yield* moveRows("tenant_derived", tenant, left);
  yield* moveRows("server_data", tenant, left);
  return yield* dialect.removeTenantRows(tenant, changes);
}

/**
 * Removes the claims and the data of servers under an alias, and everything that no other tenant claims, in
 * transactions short enough for concurrent writes. Returns the number of removed contents.
 */
export async function removeClaims(write: Write, dialect: Dialect, alias: string): Promise<number> {
  for (let total = 0; ;) {
    const { isOver, removed } = await write(() => removeBatch(dialect, alias));
    total += removed;
    if (isOver) return total;
  }
}

function* removeBatch(dialect: Dialect, alias: string): Steps<{ isOver: boolean; removed: number }> {
  const selectRemovable = (query: string): string => dialect.selectRemovable(`${query} LIMIT ${AT_ONCE}`);
  const claims = yield* rows<{ id: number }>(
    `DELETE FROM tenant_content WHERE tenant = $1 AND content_id IN (${selectRemovable(
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
  let removedRows = 0;
  for (const { table, long } of serverTables) {
    const removed = yield* rows(
      `DELETE FROM ${table} WHERE id IN (${selectRemovable(
        `SELECT ${table}.id, octet_length(${long}) AS bytes FROM server_data JOIN ${table} ON server_id = server_data.id
         WHERE tenant = $1`,
      )}) RETURNING 1`,
      [alias],
    );
    removedRows += removed.length;
  }
  if (removedRows === 0) yield* rows("DELETE FROM server_data WHERE tenant = $1", [alias]);
  // Changes of an import that was never published.
  yield* rows("DELETE FROM name_change WHERE tenant = $1", [alias]);
  const removed = yield* removeUnheld(dialect, toIds(claims));
  const removedResults = yield* removeResults(dialect, toKeys(results));
  yield* removeUnheld(dialect, toIds(removedResults));
  return { isOver: claims.length + results.length + removedRows === 0, removed: removed.length };
}

export interface SizedContent {
  readonly id: number;
  readonly bytes: number;
  readonly isPackage: boolean | number;
}

/** Removes and returns contents without claims, except those that another transaction is about to claim. */
export function* removeUnheld(dialect: Dialect, ids: readonly number[]): Steps<SizedContent[]> {
  if (ids.length === 0) return [];
  const unlocked = yield* rows<SizedContent>(
    `SELECT id, octet_length(bytes) AS bytes, ${dialect.isPackage} AS "isPackage" FROM content
     WHERE ${dialect.oneOf("id", "$1")} ${dialect.skipLocked}`,
    [ids],
  );
  const removed = yield* rows<{ id: number }>(
    `DELETE FROM content WHERE ${dialect.oneOf("id", "$1")} AND ${UNHELD} RETURNING id`,
    [toIds(unlocked)],
  );
  const removedIds = new Set(toIds(removed));
  return unlocked.filter(({ id }) => removedIds.has(id));
}

/** The same for derived results. Returns their contents. */
export function* removeResults(
  dialect: Dialect,
  keys: readonly string[],
): Steps<{ readonly id: number; readonly bytes: number }[]> {
  if (keys.length === 0) return [];
  const unlocked = yield* rows<{ key: string }>(
    `SELECT key FROM derived WHERE ${dialect.oneOf("key", "$1")} ${dialect.skipLocked}`,
    [keys],
  );
  return yield* rows(
    `DELETE FROM derived WHERE ${dialect.oneOf("key", "$1")}
       AND NOT EXISTS (SELECT 1 FROM tenant_derived WHERE tenant_derived.key = derived.key)
     RETURNING content_id AS id, (SELECT octet_length(bytes) FROM content WHERE content.id = content_id) AS bytes`,
    [toKeys(unlocked)],
  );
}

/** The ids of aliases that have claims, data of servers, or changes. */
export function* leftoverIds(): Steps<string[]> {
  const tables = ["tenant_content", "tenant_derived", "server_data", "name_change"];
  const aliases = yield* rows<{ tenant: string }>(
    tables
      .map((table) => `SELECT DISTINCT tenant FROM ${table} WHERE tenant > '${ALIAS}' AND tenant < '${ALIAS}~'`)
      .join(" UNION "),
  );
  return [...new Set(aliases.map(({ tenant }) => tenant.slice(ALIAS.length).split("-")[0]!))];
}

export function toIds(list: readonly { readonly id: number }[]): number[] {
  return list.map(({ id }) => id);
}

export function toKeys(list: readonly { readonly key: string }[]): string[] {
  return list.map(({ key }) => key);
}
