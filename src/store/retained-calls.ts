import { ALIAS } from "./aliases.ts";
import type { Dialect } from "./dialect.ts";
import { dataBytes, inBatches, type ServerData } from "./server-data.ts";
import { rows, type Steps } from "./steps.ts";
import type {
  RetainingServer,
  NewRetainedCall,
  RetainedCall,
  RetainedCallFacts,
  RetainedCallPage,
  RetainedCallPart,
  RetainedCallQuota,
  RetainedCallStore,
} from "./store.ts";

/**
 * The maximum number of calls that one transaction removes, so that it stays short, in addition to as many as it adds.
 */
const AT_ONCE = 32;

const CALLS = "retained_call JOIN server_data AS owner ON owner.id = server_id";
const OF_SERVER = "tenant = $1 AND kind = 'calls' AND server = $2";
const SIZE = "octet_length(body)";
const FACTS = "retained_call.id, at, tool, outcome, micros, principal";

/** The store of retained calls for both databases. */
export function createRetainedCallStore(data: ServerData): RetainedCallStore {
  const { dialect, read } = data;
  const write = <T>(tenant: string, work: () => Steps<T>, mayExceedQuota = false): Promise<T> =>
    data.write(tenant, work, { isDurable: false, mayExceedQuota });
  return {
    async add(tenant, calls, room) {
      if (calls.length === 0) return;
      await write(tenant, () => add(data, tenant, calls, room), room.storedBytesMax !== undefined);
    },

    list: (tenant, server, part) => read(list(dialect, tenant, server, part)),

    async get(tenant, server, id) {
      const sql = `SELECT ${FACTS}, body FROM ${CALLS}
        WHERE ${OF_SERVER} AND retained_call.id = $3 AND expires_at > (SELECT berth_now())`;
      const [found] = await read(rows<RetainedCall>(sql, [tenant, server, id]));
      return found;
    },

    servers: () =>
      read(
        rows<RetainingServer>(
          `SELECT tenant, server FROM server_data WHERE kind = 'calls' AND items > 0 AND tenant NOT LIKE '${ALIAS}%'
           ORDER BY tenant, server`,
        ),
      ),

    remove: (tenant, server, before = Number.MAX_SAFE_INTEGER) =>
      inBatches(AT_ONCE, () => write(tenant, () => removeSome(dialect, tenant, server, before))),

    async removeExpired() {
      const owners = await read(
        rows<{ tenant: string; id: number }>(
          `SELECT DISTINCT tenant, server_id AS id FROM ${CALLS}
           WHERE expires_at <= (SELECT berth_now()) AND tenant NOT LIKE '${ALIAS}%'`,
        ),
      );
      // Usually the oldest ones.
      const expired = `SELECT id FROM retained_call WHERE server_id = $1 AND expires_at <= (SELECT berth_now())
        ORDER BY at, id LIMIT ${AT_ONCE}`;
      let removed = 0;
      for (const { tenant, id } of owners)
        removed += await inBatches(AT_ONCE, () => write(tenant, () => remove(dialect, expired, [id])));
      return removed;
    },
  };
}

function* add(
  { dialect, checkQuota }: ServerData,
  tenant: string,
  calls: readonly NewRetainedCall[],
  room: RetainedCallQuota,
): Steps<void> {
  const bytes = calls.reduce((sum, { body }) => sum + Buffer.byteLength(body), 0);
  if (room.storedBytesMax !== undefined)
    yield* checkQuota(tenant, yield* dataBytes(tenant), bytes, room.storedBytesMax, "storage_full");
  yield* dialect.addCalls(tenant, calls);
  const removableMax = calls.length + AT_ONCE;
  const overfull = yield* rows<{ id: number; over: number }>(
    "SELECT id, items - $2 AS over FROM server_data WHERE tenant = $1 AND kind = 'calls' AND items > $2",
    [tenant, room.callsPerServer],
  );
  const oldest = "SELECT id FROM retained_call WHERE server_id = $1 ORDER BY at, id LIMIT $2";
  for (const { id, over } of overfull) yield* remove(dialect, oldest, [id, Math.min(over, removableMax)]);
  for (let remaining = removableMax; remaining > 0;) {
    const [largest] = yield* rows<{ id: number; over: number }>(
      `SELECT id, sum(bytes) OVER () - $2 AS over FROM server_data WHERE tenant = $1 AND kind = 'calls'
       ORDER BY bytes DESC, id LIMIT 1`,
      [tenant, room.bytesPerTenant],
    );
    if (!largest || largest.over <= 0) return;
    const removed = yield* remove(
      dialect,
      `SELECT id FROM (
         SELECT id, sum(length) OVER (ORDER BY at, id) - length AS before FROM (
           SELECT id, at, octet_length(body) AS length FROM retained_call WHERE server_id = $1 ORDER BY at, id LIMIT $2) AS first
       ) AS oldest WHERE before < $3`,
      [largest.id, remaining, largest.over],
    );
    if (removed === 0) return;
    remaining -= removed;
  }
}

function* list(
  { oneOf }: Pick<Dialect, "oneOf">,
  tenant: string,
  server: string,
  { max, after, tool, outcomes, since = 0, before = Number.MAX_SAFE_INTEGER }: RetainedCallPart,
): Steps<RetainedCallPage> {
  // One more than requested shows whether there is a next page.
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
     WHERE ${OF_SERVER} AND (at, retained_call.id) < ($3, $4) AND at >= $5 AND at < $6
       AND expires_at > (SELECT berth_now())${filters.map((filter) => ` AND ${filter}`).join("")}
     ORDER BY at DESC, retained_call.id DESC LIMIT $7`,
    values,
  );
  return { calls: found.slice(0, max), isMore: found.length > max };
}

function* removeSome(dialect: Dialect, tenant: string, server: string, before: number): Steps<number> {
  const removed = yield* remove(
    dialect,
    `SELECT retained_call.id FROM ${CALLS} WHERE ${OF_SERVER} AND at < $3
     ORDER BY at, retained_call.id LIMIT ${AT_ONCE}`,
    [tenant, server, before],
  );
  const empty = `DELETE FROM server_data WHERE ${OF_SERVER} AND items = 0`;
  if (removed < AT_ONCE) yield* rows(empty, [tenant, server]);
  return removed;
}

/** Removes the calls whose ids a query selects. Returns their number. */
function remove(dialect: Dialect, ids: string, values: readonly unknown[]): Steps<number> {
  return dialect.removeRows("retained_call", SIZE, ids, values);
}
