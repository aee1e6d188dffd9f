import { nextTurn } from "../lib/event-loop.ts";
import { ALIAS } from "./aliases.ts";
import type { Dialect } from "./dialect.ts";
import { rows, type Steps } from "./steps.ts";
import type {
  KeepingServer,
  NewRetainedCall,
  RetainedCall,
  RetainedCallFacts,
  RetainedCallPage,
  RetainedCallPart,
  RetainedCallRoom,
  RetainedCallStore,
} from "./store.ts";

/** The most calls that one transaction removes, so that it stays short; and more than it adds, above a limit. */
const AT_ONCE = 32;

const CALLS = "retained_call JOIN retained_call_server AS place ON place.id = server_id";
const FACTS = "retained_call.id, at, tool, outcome, micros, principal";

/** How one kind of store runs the statements of retained calls. */
interface CallTables {
  readonly dialect: Pick<Dialect, "oneOf" | "addCalls">;
  readonly read: <T>(steps: Steps<T>) => Promise<T>;
  /**
   * Runs one transaction on a tenant's calls, which may be lost in a power cut. Rejects with `storage_full`, and changes
   * nothing, if the tenant may not store what is `added`.
   */
  readonly write: <T>(tenant: string, work: () => Steps<T>, added?: AddedBytes) => Promise<T>;
}

interface AddedBytes {
  readonly bytes: number;
  /** The most that the tenant may store, of every kind. */
  readonly storedBytesMax: number;
}

/** The retained calls of either store. */
export function retainedCallsIn({ dialect, read, write }: CallTables): RetainedCallStore {
  return {
    async add(tenant, calls, room) {
      if (calls.length === 0) return;
      const { storedBytesMax } = room;
      const bytes = calls.reduce((sum, { body }) => sum + Buffer.byteLength(body), 0);
      const added = storedBytesMax === undefined ? undefined : { bytes, storedBytesMax };
      await write(tenant, () => add(dialect, tenant, calls, room), added);
    },

    list: (tenant, server, part) => read(list(dialect, tenant, server, part)),

    async get(tenant, server, id) {
      const sql = `SELECT ${FACTS}, body FROM ${CALLS}
        WHERE tenant = $1 AND server = $2 AND retained_call.id = $3 AND expires_at > (SELECT berth_now())`;
      const [found] = await read(rows<RetainedCall>(sql, [tenant, server, id]));
      return found;
    },

    servers: () =>
      read(
        rows<KeepingServer>(
          `SELECT tenant, server FROM retained_call_server WHERE calls > 0 AND tenant NOT LIKE '${ALIAS}%'
           ORDER BY tenant, server`,
        ),
      ),

    remove: (tenant, server, before = Number.MAX_SAFE_INTEGER) =>
      inSteps(() => write(tenant, () => removeSome(tenant, server, before))),

    async removeExpired() {
      const places = await read(
        rows<{ tenant: string; id: number }>(
          `SELECT DISTINCT tenant, server_id AS id FROM ${CALLS}
           WHERE expires_at <= (SELECT berth_now()) AND tenant NOT LIKE '${ALIAS}%'`,
        ),
      );
      // Usually the oldest ones.
      const expired = `SELECT id FROM retained_call WHERE server_id = $1 AND expires_at <= (SELECT berth_now())
        ORDER BY at, id LIMIT ${AT_ONCE}`;
      let removed = 0;
      for (const { tenant, id } of places) removed += await inSteps(() => write(tenant, () => remove(expired, [id])));
      return removed;
    },
  };
}

function* add(
  dialect: Pick<Dialect, "addCalls">,
  tenant: string,
  calls: readonly NewRetainedCall[],
  room: RetainedCallRoom,
): Steps<void> {
  yield* dialect.addCalls(tenant, calls);
  const most = calls.length + AT_ONCE;
  const full = yield* rows<{ id: number; over: number }>(
    "SELECT id, calls - $2 AS over FROM retained_call_server WHERE tenant = $1 AND calls > $2",
    [tenant, room.callsPerServer],
  );
  const oldest = "SELECT id FROM retained_call WHERE server_id = $1 ORDER BY at, id LIMIT $2";
  for (const { id, over } of full) yield* remove(oldest, [id, Math.min(over, most)]);
  for (let left = most; left > 0;) {
    const [fullest] = yield* rows<{ id: number; over: number }>(
      `SELECT id, sum(bytes) OVER () - $2 AS over FROM retained_call_server WHERE tenant = $1
       ORDER BY bytes DESC, id LIMIT 1`,
      [tenant, room.bytesPerTenant],
    );
    if (!fullest || fullest.over <= 0) return;
    const removed = yield* remove(
      `SELECT id FROM (
         SELECT id, sum(length) OVER (ORDER BY at, id) - length AS before FROM (
           SELECT id, at, octet_length(body) AS length FROM retained_call WHERE server_id = $1 ORDER BY at, id LIMIT $2) AS first
       ) AS oldest WHERE before < $3`,
      [fullest.id, left, fullest.over],
    );
    if (removed === 0) return;
    left -= removed;
  }
}

function* list(
  { oneOf }: Pick<Dialect, "oneOf">,
  tenant: string,
  server: string,
  { max, after, tool, outcomes, since = 0, before = Number.MAX_SAFE_INTEGER }: RetainedCallPart,
): Steps<RetainedCallPage> {
  // One more call shows that there is a next page.
  const values: unknown[] = [
    tenant,
    server,
    after?.at ?? Number.MAX_SAFE_INTEGER,
    after?.id ?? 0,
    since,
    before,
    max + 1,
  ];
  const filters = [
    ...(tool === undefined ? [] : [`tool = $${values.push(tool)}`]),
    ...(outcomes === undefined ? [] : [oneOf("outcome", `$${values.push(outcomes)}`)]),
  ];
  const found = yield* rows<RetainedCallFacts>(
    `SELECT ${FACTS} FROM ${CALLS}
     WHERE tenant = $1 AND server = $2 AND (at, retained_call.id) < ($3, $4) AND at >= $5 AND at < $6
       AND expires_at > (SELECT berth_now())${filters.map((filter) => ` AND ${filter}`).join("")}
     ORDER BY at DESC, retained_call.id DESC LIMIT $7`,
    values,
  );
  return { calls: found.slice(0, max), isMore: found.length > max };
}

function* removeSome(tenant: string, server: string, before: number): Steps<number> {
  const removed = yield* remove(
    `SELECT retained_call.id FROM ${CALLS} WHERE tenant = $1 AND server = $2 AND at < $3
     ORDER BY at, retained_call.id LIMIT ${AT_ONCE}`,
    [tenant, server, before],
  );
  const empty = "DELETE FROM retained_call_server WHERE tenant = $1 AND server = $2 AND calls = 0";
  if (removed < AT_ONCE) yield* rows(empty, [tenant, server]);
  return removed;
}

/** Removes the calls whose ids a query selects. Returns their number. */
function* remove(ids: string, values: readonly unknown[]): Steps<number> {
  const removed = yield* rows<{ serverId: number; bytes: number }>(
    `DELETE FROM retained_call WHERE id IN (${ids}) RETURNING server_id AS "serverId", octet_length(body) AS bytes`,
    values,
  );
  const sums = new Map<number, { calls: number; bytes: number }>();
  for (const { serverId, bytes } of removed) {
    const sum = sums.get(serverId) ?? { calls: 0, bytes: 0 };
    sums.set(serverId, { calls: sum.calls + 1, bytes: sum.bytes + bytes });
  }
  const shrink = "UPDATE retained_call_server SET calls = calls - $2, bytes = bytes - $3 WHERE id = $1";
  for (const [id, { calls, bytes }] of sums) yield* rows(shrink, [id, calls, bytes]);
  return removed.length;
}

async function inSteps(step: () => Promise<number>): Promise<number> {
  for (let total = 0; ;) {
    const removed = await step();
    total += removed;
    if (removed < AT_ONCE) return total;
    await nextTurn();
  }
}
