import { ALIAS } from "../aliases.ts";
import type {
  KeepingServer,
  RetainedCall,
  RetainedCallFacts,
  RetainedCallRoom,
  RetainedCallStore,
  NewRetainedCall,
} from "../store.ts";
import type { PostgresDatabase, RunSql } from "./database.ts";
import { checkRoom, type StoredSums } from "./stored-bytes.ts";

/** The most calls that one transaction removes. */
const AT_ONCE = 100;

const QUICK = { isDurable: false } as const;

/** The part of the Postgres store that keeps calls. Each write has locked its tenant. */
export function postgresRetainedCalls(database: PostgresDatabase, storedBytes: StoredSums): RetainedCallStore {
  return {
    async add(tenant, calls, room) {
      if (calls.length === 0) return;
      await database.change(
        tenant,
        async (run) => {
          const bytes = calls.reduce((sum, { body }) => sum + Buffer.byteLength(body), 0);
          if (room.storedBytesMax !== undefined)
            checkRoom(await storedBytes.lately(run, tenant), bytes, room.storedBytesMax, "storage_full");
          await addAll(run, tenant, calls);
          await makeRoom(run, tenant, room, calls.length + AT_ONCE);
        },
        QUICK,
      );
    },

    async list(tenant, server, { max, after, tool, outcomes, since, before }) {
      const last = Number.MAX_SAFE_INTEGER;
      const found = await database.run<RetainedCallFacts>(
        `SELECT ${FACTS} FROM ${CALLS}
         WHERE tenant = $1 AND server = $2 AND (at, retained_call.id) < ($3::bigint, $4::bigint)
           AND at >= $5 AND at < $6 AND expires_at > (SELECT berth_now())
           AND ($7::text IS NULL OR tool = $7) AND ($8::text[] IS NULL OR outcome = ANY ($8))
         ORDER BY at DESC, retained_call.id DESC LIMIT $9`,
        // One more tells that there is a next page.
        [tenant, server, after?.at ?? last, after?.id ?? 0, since ?? 0, before ?? last, tool, outcomes, max + 1],
      );
      return { calls: found.slice(0, max), isMore: found.length > max };
    },

    async get(tenant, server, id) {
      const [found] = await database.run<RetainedCall>(
        `SELECT ${FACTS}, body FROM ${CALLS}
         WHERE tenant = $1 AND server = $2 AND retained_call.id = $3 AND expires_at > berth_now()`,
        [tenant, server, id],
      );
      return found;
    },

    servers: () =>
      database.run<KeepingServer>(
        `SELECT tenant, server FROM retained_call_server WHERE calls > 0 AND NOT starts_with(tenant, '${ALIAS}')
         ORDER BY tenant, server`,
      ),

    async remove(tenant, server, before = Number.MAX_SAFE_INTEGER) {
      const which = `id IN (SELECT retained_call.id FROM ${CALLS} WHERE tenant = $1 AND server = $2 AND at < $3
        ORDER BY at, retained_call.id LIMIT ${AT_ONCE})`;
      const removed = await inSteps(database, tenant, (run) => remove(run, which, [tenant, server, before]));
      await database.run("DELETE FROM retained_call_server WHERE tenant = $1 AND server = $2 AND calls = 0", [
        tenant,
        server,
      ]);
      return removed;
    },

    async removeExpired() {
      const tenants = await database.run<{ tenant: string }>(
        `SELECT DISTINCT tenant FROM ${CALLS}
         WHERE expires_at <= (SELECT berth_now()) AND NOT starts_with(tenant, '${ALIAS}')`,
      );
      const which = `id IN (SELECT retained_call.id FROM ${CALLS}
        WHERE tenant = $1 AND expires_at <= (SELECT berth_now()) LIMIT ${AT_ONCE})`;
      let removed = 0;
      for (const { tenant } of tenants)
        removed += await inSteps(database, tenant, (run) => remove(run, which, [tenant]));
      return removed;
    },
  };
}

const CALLS = "retained_call JOIN retained_call_server AS place ON place.id = server_id";
const FACTS = "retained_call.id, at, tool, outcome, micros, principal";

async function addAll(run: RunSql, tenant: string, calls: readonly NewRetainedCall[]): Promise<void> {
  const columns = ["server", "at", "expiresAt", "tool", "outcome", "micros", "principal", "body"] as const;
  await run(
    `WITH new AS (
         SELECT * FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::bigint[], $8::text[], $9::text[])
           WITH ORDINALITY AS each (server, at, expires_at, tool, outcome, micros, principal, body, turn)),
       place AS (
         INSERT INTO retained_call_server AS before (tenant, server, calls, bytes)
         SELECT $1, server, count(*), sum(octet_length(body)) FROM new GROUP BY server
         ON CONFLICT (tenant, server) DO UPDATE SET calls = before.calls + excluded.calls, bytes = before.bytes + excluded.bytes
         RETURNING id, server)
     INSERT INTO retained_call (server_id, at, expires_at, tool, outcome, micros, principal, body)
     SELECT id, at, expires_at, tool, outcome, micros, principal, body FROM new JOIN place USING (server) ORDER BY turn`,
    [tenant, ...columns.map((column) => calls.map((call) => call[column]))],
  );
}

/** Removes the oldest calls where there are too many, `most` of each server and of all at the most. */
async function makeRoom(run: RunSql, tenant: string, room: RetainedCallRoom, most: number): Promise<void> {
  const full = await run<{ id: number; over: number }>(
    "SELECT id, calls - $2::bigint AS over FROM retained_call_server WHERE tenant = $1 AND calls > $2::bigint",
    [tenant, room.callsPerServer],
  );
  const oldest = "id IN (SELECT id FROM retained_call WHERE server_id = $1 ORDER BY at, id LIMIT $2)";
  for (const { id, over } of full) await remove(run, oldest, [id, Math.min(over, most)]);
  for (let left = most; left > 0;) {
    const [fullest] = await run<{ id: number; over: number }>(
      `SELECT id, sum(bytes) OVER () - $2::bigint AS over FROM retained_call_server WHERE tenant = $1
       ORDER BY bytes DESC, id LIMIT 1`,
      [tenant, room.bytesPerTenant],
    );
    if (!fullest || fullest.over <= 0) return;
    const removed = await remove(
      run,
      `id IN (SELECT id FROM (
         SELECT id, sum(length) OVER (ORDER BY at, id) - length AS before FROM (
           SELECT id, at, octet_length(body) AS length FROM retained_call WHERE server_id = $1 ORDER BY at, id LIMIT $2) AS first
         ) AS oldest WHERE before < $3)`,
      [fullest.id, left, fullest.over],
    );
    if (removed === 0) return;
    left -= removed;
  }
}

/** Returns the number of those that it removed; part of a transaction that has locked their tenant. */
async function remove(run: RunSql, which: string, values: readonly unknown[]): Promise<number> {
  const removed = await run<{ calls: number }>(
    `WITH gone AS (DELETE FROM retained_call WHERE ${which} RETURNING server_id, octet_length(body) AS bytes),
       sums AS (SELECT server_id, count(*) AS calls, sum(bytes) AS bytes FROM gone GROUP BY server_id)
     UPDATE retained_call_server AS place SET calls = place.calls - sums.calls, bytes = place.bytes - sums.bytes
     FROM sums WHERE place.id = server_id RETURNING sums.calls`,
    values,
  );
  return removed.reduce((sum, { calls }) => sum + calls, 0);
}

async function inSteps(
  database: PostgresDatabase,
  tenant: string,
  step: (run: RunSql) => Promise<number>,
): Promise<number> {
  for (let total = 0; ;) {
    const removed = await database.change(tenant, step, QUICK);
    total += removed;
    if (removed < AT_ONCE) return total;
  }
}
