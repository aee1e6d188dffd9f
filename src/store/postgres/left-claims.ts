import { ALIAS } from "../aliases.ts";
import type { PostgresDatabase, RunSql } from "./database.ts";

/** The most rows of each kind that one transaction removes. */
const AT_ONCE = 100;

const QUICK = { isDurable: false } as const;

/** Nobody has any claim on the row of `content`, nor may still take it back. */
export const UNHELD = `NOT EXISTS (SELECT 1 FROM tenant_content WHERE content_id = content.id)
  AND NOT EXISTS (SELECT 1 FROM left_content WHERE content_id = content.id)
  AND NOT EXISTS (SELECT 1 FROM derived WHERE content_id = content.id)`;

/**
 * Gives all claims on content under one name to another that has none; as the two below, in a transaction that has locked
 * the tenant.
 */
export async function moveClaims(run: RunSql, from: string, to: string): Promise<void> {
  await run(
    `WITH noted AS (DELETE FROM left_content WHERE tenant = $1 RETURNING content_id),
       moved AS (UPDATE tenant_content SET tenant = $2 WHERE tenant = $1)
     INSERT INTO tenant_content (tenant, content_id)
     SELECT $2, content_id FROM noted
     WHERE NOT EXISTS (SELECT 1 FROM tenant_content AS held WHERE held.tenant = $1 AND held.content_id = noted.content_id)`,
    [from, to],
  );
}

/** As `moveClaims`, for claims on derived results. */
export async function moveResults(run: RunSql, from: string, to: string): Promise<void> {
  await run("UPDATE tenant_derived SET tenant = $2 WHERE tenant = $1", [from, to]);
}

/** As `moveClaims`, for the state of servers. */
export async function moveState(run: RunSql, from: string, to: string): Promise<void> {
  await run("UPDATE state_server SET tenant = $2 WHERE tenant = $1", [from, to]);
}

/** As `moveClaims`, for the retained calls of servers. */
export async function moveCalls(run: RunSql, from: string, to: string): Promise<void> {
  await run("UPDATE retained_call_server SET tenant = $2 WHERE tenant = $1", [from, to]);
}

/** As `moveState`, for one server, whose versions go on from there; returns the number of its keys. */
export async function moveServerState(run: RunSql, tenant: string, server: string, to: string): Promise<number> {
  const [moved] = await run<{ keys: number; version: number }>(
    "UPDATE state_server SET tenant = $3 WHERE tenant = $1 AND server = $2 AND keys > 0 RETURNING keys, version",
    [tenant, server, to],
  );
  if (!moved) return 0;
  // Nobody who remembers a version takes a later value for it.
  await run("INSERT INTO state_server (tenant, server, keys, bytes, version) VALUES ($1, $2, 0, 0, $3)", [
    tenant,
    server,
    moved.version,
  ]);
  return moved.keys;
}

/**
 * Removes all that a tenant has, in a long transaction that has locked it, and leaves what takes long to remove behind under
 * `left`, for `removeClaims`. Of its changes those go that fulfil a condition. Returns the number of its names.
 */
export async function purge(run: RunSql, tenant: string, left: string, changes = "true"): Promise<number> {
  await moveClaims(run, tenant, left);
  await moveResults(run, tenant, left);
  await moveState(run, tenant, left);
  await moveCalls(run, tenant, left);
  const [names] = await run<{ count: number }>(
    "WITH gone AS (DELETE FROM name WHERE tenant = $1 RETURNING 1) SELECT count(*) FROM gone",
    [tenant],
  );
  await run(
    `WITH changes AS (DELETE FROM name_change WHERE tenant = $1 AND ${changes}), records AS (DELETE FROM record WHERE tenant = $1)
     DELETE FROM secret WHERE tenant = $1`,
    [tenant],
  );
  return names!.count;
}

/**
 * Removes the claims, the state and the retained calls under an alias, with everything that nobody else holds, in steps that keep nobody
 * waiting. Returns the number of contents that are gone.
 */
export async function removeClaims(database: PostgresDatabase, alias: string): Promise<number> {
  for (let total = 0; ;) {
    const { isOver, removed } = await database.transaction((run) => removeSome(run, alias), QUICK);
    total += removed;
    if (isOver) return total;
  }
}

/** As `removeClaims`, for who is done already: what stays when the database is lost goes with the next collection. */
export async function removeLater(database: PostgresDatabase, alias: string): Promise<void> {
  await removeClaims(database, alias).catch(() => {});
}

async function removeSome(run: RunSql, alias: string): Promise<{ isOver: boolean; removed: number }> {
  const claims = await run<{ id: number }>(
    `DELETE FROM tenant_content WHERE tenant = $1 AND content_id IN (
       SELECT content_id FROM tenant_content WHERE tenant = $1 LIMIT ${AT_ONCE}) RETURNING content_id AS id`,
    [alias],
  );
  const results = await run<{ key: string }>(
    `DELETE FROM tenant_derived WHERE tenant = $1 AND key IN (
       SELECT key FROM tenant_derived WHERE tenant = $1 LIMIT ${AT_ONCE}) RETURNING key`,
    [alias],
  );
  const state = await run(
    `DELETE FROM state WHERE id IN (
       SELECT state.id FROM state JOIN state_server ON state_server.id = server_id
       WHERE tenant = $1 LIMIT ${AT_ONCE}) RETURNING 1`,
    [alias],
  );
  if (state.length === 0) await run("DELETE FROM state_server WHERE tenant = $1", [alias]);
  const calls = await run(
    `DELETE FROM retained_call WHERE id IN (
       SELECT retained_call.id FROM retained_call JOIN retained_call_server ON retained_call_server.id = server_id
       WHERE tenant = $1 LIMIT ${AT_ONCE}) RETURNING 1`,
    [alias],
  );
  if (calls.length === 0) await run("DELETE FROM retained_call_server WHERE tenant = $1", [alias]);
  // Of an import that was not published.
  await run("DELETE FROM name_change WHERE tenant = $1", [alias]);
  const removed = await removeUnheld(
    run,
    claims.map(({ id }) => id),
  );
  const gone = await removeResults(
    run,
    results.map(({ key }) => key),
  );
  await removeUnheld(
    run,
    gone.map(({ id }) => id),
  );
  const isOver = claims.length + results.length + state.length + calls.length === 0;
  return { isOver, removed: removed.length };
}

/**
 * Removes those of the contents that nobody has a claim on. One that somebody else is about to claim is left to the next
 * collection.
 */
export async function removeUnheld(
  run: RunSql,
  ids: readonly number[],
): Promise<{ readonly bytes: number; readonly isPackage: boolean }[]> {
  if (ids.length === 0) return [];
  const locked = await run<{ id: number }>("SELECT id FROM content WHERE id = ANY ($1) FOR UPDATE SKIP LOCKED", [ids]);
  return run(
    `DELETE FROM content WHERE id = ANY ($1) AND ${UNHELD}
     RETURNING octet_length(bytes) AS bytes, is_package AS "isPackage"`,
    [locked.map(({ id }) => id)],
  );
}

/** As `removeUnheld`, for derived results; returns their contents. */
export async function removeResults(
  run: RunSql,
  keys: readonly string[],
): Promise<{ readonly id: number; readonly bytes: number }[]> {
  if (keys.length === 0) return [];
  const locked = await run<{ key: string }>("SELECT key FROM derived WHERE key = ANY ($1) FOR UPDATE SKIP LOCKED", [
    keys,
  ]);
  return run(
    `DELETE FROM derived WHERE key = ANY ($1)
       AND NOT EXISTS (SELECT 1 FROM tenant_derived WHERE tenant_derived.key = derived.key)
     RETURNING content_id AS id, (SELECT octet_length(bytes) FROM content WHERE content.id = content_id) AS bytes`,
    [locked.map(({ key }) => key)],
  );
}

/** The ids of aliases under which there are claims, state or retained calls. */
export async function leftIds(run: RunSql): Promise<string[]> {
  const isAlias = `tenant > '${ALIAS}' AND tenant < '${ALIAS}~'`;
  const found = await run<{ tenant: string }>(
    `SELECT DISTINCT tenant FROM tenant_content WHERE ${isAlias}
     UNION SELECT DISTINCT tenant FROM tenant_derived WHERE ${isAlias}
     UNION SELECT DISTINCT tenant FROM state_server WHERE ${isAlias}
     UNION SELECT DISTINCT tenant FROM retained_call_server WHERE ${isAlias}
     UNION SELECT DISTINCT tenant FROM name_change WHERE ${isAlias}`,
  );
  return [...new Set(found.map(({ tenant }) => tenant.slice(ALIAS.length).split("-")[0]!))];
}
