import { actorOf, entryOf } from "../../audit/audit-entry.ts";
import type { BerthError } from "../../lib/errors.ts";
import { newAlias } from "../aliases.ts";
import { byServer, endOf, serverFull, sizeOf, tenantStateFull, whatIsFull } from "../state-rules.ts";
import type {
  KeptState,
  StateEntry,
  StateItem,
  StatePage,
  StatePart,
  StateRoom,
  StateSize,
  StateStore,
} from "../store.ts";
import { appendAudit } from "./audit.ts";
import type { PostgresDatabase, RunSql } from "./database.ts";
import { removeLater } from "./steps.ts";
import { checkRoom, type StoredSums } from "./stored-bytes.ts";

/** The most expired keys that one transaction removes. */
const EXPIRED_AT_ONCE = 1_000;

/** The part of the Postgres store that keeps the state of servers. Each write has locked its tenant. */
export function postgresState(database: PostgresDatabase, storedBytes: StoredSums): StateStore {
  return {
    async get(tenant, server, key) {
      const [entry] = await database.run<StateEntry>(
        `SELECT value, ${FACTS} FROM ${STATE} WHERE tenant = $1 AND server = $2 AND key = $3 AND ${LIVES}`,
        [tenant, server, key],
      );
      return entry;
    },

    list: (tenant, server, part) => list(database.run, tenant, server, part),

    set: (tenant, server, key, put) =>
      database.change(tenant, async (run) => {
        const { value, isJson, expiresAt, expected, room, by } = put;
        const known = await read(run, tenant, server, key);
        if (expected !== undefined && known.version !== expected) return undefined;
        const more = { keys: known.bytes === null ? 1 : 0, bytes: sizeOf(key, value) - (known.bytes ?? 0) };
        await makeRoom(run, storedBytes, { tenant, server, key, more, room }, known);
        // Numbers that follow the clock are greater than those of a store that was replaced by its backup.
        const version = Math.max(known.latest + 1, known.now);
        await run(
          `WITH place AS (
             INSERT INTO state_server AS before (tenant, server, keys, bytes, version) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (tenant, server) DO UPDATE SET keys = before.keys + excluded.keys,
               bytes = before.bytes + excluded.bytes, version = excluded.version RETURNING id)
           INSERT INTO state (server_id, key, value, is_json, version, changed_at, expires_at)
           SELECT id, $6, $7, $8, $5, $9, $10 FROM place
           ON CONFLICT (server_id, key) DO UPDATE SET value = excluded.value, is_json = excluded.is_json,
             version = excluded.version, changed_at = excluded.changed_at, expires_at = excluded.expires_at`,
          [tenant, server, more.keys, more.bytes, version, key, value, isJson, known.now, expiresAt],
        );
        await note(run, tenant, by, "set", { server, key });
        return version;
      }),

    delete: (tenant, server, key, { expected, by } = {}) =>
      database.change(tenant, async (run) => {
        const known = await read(run, tenant, server, key);
        if (expected !== undefined && known.version !== expected) return undefined;
        if (known.bytes !== null) await remove(run, "tenant = $1 AND server = $2 AND key = $3", [tenant, server, key]);
        // A key that had expired counts as absent.
        if (known.version === 0) return false;
        await note(run, tenant, by, "deleted", { server, key });
        return true;
      }),

    async clear(tenant, server, by) {
      const left = newAlias();
      const keys = await database.change(tenant, async (run) => {
        const moved = await moveServerState(run, tenant, server, left);
        if (moved > 0) await note(run, tenant, by, "cleared", { server });
        return moved;
      });
      if (keys > 0) await removeLater(database, left);
      return keys;
    },

    async sizes(tenant) {
      const sizes = await database.run<StateSize>(
        "SELECT server, keys, bytes FROM state_server WHERE tenant = $1 AND keys > 0",
        [tenant],
      );
      return sizes.sort(byServer);
    },
  };
}

const STATE = "state JOIN state_server AS place ON place.id = server_id";
const FACTS = 'state.version, changed_at AS "changedAt", expires_at AS "expiresAt", is_json AS "isJson"';
const LIVES = "(expires_at IS NULL OR expires_at > berth_now())";

async function list(run: RunSql, tenant: string, server: string, part: StatePart): Promise<StatePage> {
  const { prefix, after = "", max, valueBytesMax } = part;
  // One more than a page may have tells that there is a next one.
  const rows = await run<StateItem & { readonly found: number }>(
    `SELECT key, bytes, version, "changedAt", "expiresAt", "isJson"${valueBytesMax === undefined ? "" : ", value"}, found
     FROM (SELECT *, sum(bytes) OVER (ORDER BY key) AS through, row_number() OVER (ORDER BY key) AS turn, count(*) OVER () AS found
       FROM (SELECT key, octet_length(value) AS bytes, value, ${FACTS} FROM ${STATE}
         WHERE tenant = $1 AND server = $2 AND key >= $3 AND key > $4 AND ($5::text IS NULL OR key < $5) AND ${LIVES}
         ORDER BY key LIMIT $6::bigint + 1) AS first) AS page
     WHERE turn <= $6 AND (turn = 1 OR through <= $7::bigint) ORDER BY turn`,
    [tenant, server, prefix, after, endOf(prefix) ?? null, max, valueBytesMax ?? Number.MAX_SAFE_INTEGER],
  );
  const isOver = rows.length === (rows[0]?.found ?? 0);
  return { items: rows.map(({ found: _found, ...item }) => item), next: isOver ? undefined : rows.at(-1)!.key };
}

/** A key, and the state of its server, as far as they are known. */
interface Known {
  readonly now: number;
  /** 0 where the key has none, or has expired. */
  readonly version: number;
  /** The size of the key and its value, expired or not; null where there is none. */
  readonly bytes: number | null;
  /** The highest version that any key of the server ever had. */
  readonly latest: number;
  readonly keysOfServer: number;
  readonly bytesOfServer: number;
  readonly bytesOfTenant: number;
}

async function read(run: RunSql, tenant: string, server: string, key: string): Promise<Known> {
  const [known] = await run<Known>(
    `SELECT now, coalesce(place.version, 0) AS latest, octet_length(key) + octet_length(value) AS bytes,
       CASE WHEN expires_at <= now THEN 0 ELSE coalesce(state.version, 0) END AS version,
       coalesce(place.keys, 0) AS "keysOfServer", coalesce(place.bytes, 0) AS "bytesOfServer",
       (SELECT coalesce(sum(bytes), 0) FROM state_server WHERE tenant = $1) AS "bytesOfTenant"
     FROM (SELECT berth_now() AS now) AS clock
     LEFT JOIN state_server AS place ON tenant = $1 AND server = $2
     LEFT JOIN state ON server_id = place.id AND key = $3`,
    [tenant, server, key],
  );
  return known!;
}

interface Wanted {
  readonly tenant: string;
  readonly server: string;
  readonly key: string;
  readonly more: { readonly keys: number; readonly bytes: number };
  readonly room: StateRoom;
}

/** Rejects with `state_full`, unless what has expired makes room. */
async function makeRoom(run: RunSql, storedBytes: StoredSums, wanted: Wanted, known: Known): Promise<void> {
  const { tenant, server, key, more } = wanted;
  if (more.keys === 0 && more.bytes <= 0) return;
  try {
    await checkSums(run, storedBytes, wanted, known);
  } catch (error) {
    if ((error as BerthError).code !== "state_full") throw error;
    // The key itself stays, as its size is counted already.
    if ((await removeExpired(run, tenant, key)) === 0) throw error;
    await checkSums(run, storedBytes, wanted, await read(run, tenant, server, key));
  }
}

async function checkSums(
  run: RunSql,
  storedBytes: StoredSums,
  { tenant, server, more, room }: Wanted,
  { keysOfServer, bytesOfServer, bytesOfTenant }: Known,
): Promise<void> {
  const full = whatIsFull({ keys: keysOfServer, bytes: bytesOfServer }, more, room);
  if (full !== undefined) throw serverFull(server, full);
  if (more.bytes <= 0) return;
  const bytes = bytesOfTenant + more.bytes;
  if (bytes > room.bytesPerTenant) throw tenantStateFull(bytes, room.bytesPerTenant);
  if (room.storedBytesMax !== undefined)
    checkRoom(await storedBytes.lately(run, tenant), more.bytes, room.storedBytesMax, "state_full");
}

/** Removes some of a tenant's keys that have expired, and returns their number; part of a transaction that has locked it. */
export async function removeExpired(run: RunSql, tenant: string, except = ""): Promise<number> {
  const expired = "expires_at <= (SELECT berth_now()) AND tenant = $1 AND key <> $2";
  return await remove(run, `${expired} ORDER BY expires_at LIMIT ${EXPIRED_AT_ONCE}`, [tenant, except]);
}

async function remove(run: RunSql, which: string, values: readonly unknown[]): Promise<number> {
  const removed = await run<{ keys: number }>(
    `WITH gone AS (DELETE FROM state WHERE id IN (SELECT state.id FROM ${STATE} WHERE ${which})
         RETURNING server_id, octet_length(key) + octet_length(value) AS bytes),
       sums AS (SELECT server_id, count(*) AS keys, sum(bytes) AS bytes FROM gone GROUP BY server_id)
     UPDATE state_server AS place SET keys = place.keys - sums.keys, bytes = place.bytes - sums.bytes
     FROM sums WHERE place.id = server_id RETURNING sums.keys`,
    values,
  );
  return removed.reduce((sum, { keys }) => sum + keys, 0);
}

/** Moves the state of one server to an alias. Its versions go on from there. Returns the number of its keys. */
async function moveServerState(run: RunSql, tenant: string, server: string, to: string): Promise<number> {
  const [moved] = await run<{ keys: number; version: number }>(
    "UPDATE state_server SET tenant = $3 WHERE tenant = $1 AND server = $2 AND keys > 0 RETURNING keys, version",
    [tenant, server, to],
  );
  if (!moved) return 0;
  // A client that remembers a version must not take a later value for it.
  await run("INSERT INTO state_server (tenant, server, keys, bytes, version) VALUES ($1, $2, 0, 0, $3)", [
    tenant,
    server,
    moved.version,
  ]);
  return moved.keys;
}

async function note(
  run: RunSql,
  tenant: string,
  by: string | undefined,
  action: string,
  facts: Readonly<Record<string, string>>,
): Promise<void> {
  if (by !== undefined) await appendAudit(run, entryOf(tenant, "state", { action, ...actorOf(by), ...facts }));
}

/** Adds keys that are not there to the state of a tenant that is being assembled; part of the caller's transaction. */
export async function addState(run: RunSql, tenant: string, kept: readonly KeptState[]): Promise<void> {
  const columns = ["server", "key", "value", "isJson", "version", "changedAt", "expiresAt"] as const;
  await run(
    `WITH kept AS (
         SELECT * FROM unnest($2::text[], $3::text[], $4::bytea[], $5::boolean[], $6::bigint[], $7::bigint[], $8::bigint[])
           AS each (server, key, value, is_json, version, changed_at, expires_at)),
       place AS (
         INSERT INTO state_server AS before (tenant, server, keys, bytes, version)
         SELECT $1, server, count(*), sum(octet_length(key) + octet_length(value)), max(version) FROM kept GROUP BY server
         ON CONFLICT (tenant, server) DO UPDATE SET keys = before.keys + excluded.keys,
           bytes = before.bytes + excluded.bytes, version = greatest(before.version, excluded.version)
         RETURNING id, server)
     INSERT INTO state (server_id, key, value, is_json, version, changed_at, expires_at)
     SELECT id, key, value, is_json, kept.version, changed_at, expires_at FROM kept JOIN place USING (server)`,
    [tenant, ...columns.map((column) => kept.map((each) => each[column]))],
  );
}
