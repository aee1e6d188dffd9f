import { parseActor, auditEntry } from "../audit/audit-entry.ts";
import { BerthError } from "../lib/errors.ts";
import { ALIAS, newAlias } from "./aliases.ts";
import { appendLinks } from "./audit.ts";
import type { Dialect } from "./dialect.ts";
import { dataBytes, type ServerData } from "./server-data.ts";
import { rows, type Steps } from "./steps.ts";
import type {
  ValueEntry,
  ValueFacts,
  ValueItem,
  ValueKind,
  ValuePage,
  ValuePart,
  ValuePut,
  ValueRemoval,
  ValueQuota,
  ValueSize,
  ValueStore,
} from "./store.ts";
import { prefixEnd, valueSize } from "./value-rules.ts";

/** How many expired values a write removes, a transaction removes to free storage, and a page skips, at most. */
const EXPIRED_WITH_WRITE = 100;
const EXPIRED_FOR_STORAGE = 1_000;
const EXPIRED_SKIPPED = 1_000;
/** The minimum number of rows that one query for a page reads. */
const ROWS_AT_ONCE = 100;
const DAY_MS = 24 * 60 * 60 * 1000;
/** The number of values that one query reads when all values of a tenant are read. */
const VALUES_AT_ONCE = 50;

const VALUES = "server_value JOIN server_data AS owner ON owner.id = server_id";
const OF_KIND = "tenant = $1 AND kind = $2";
const OF_SERVER = `${OF_KIND} AND server = $3`;
const FACTS = 'server_value.version, changed_at AS "changedAt", expires_at AS "expiresAt", is_json AS "isJson"';
const IS_LIVE = "(expires_at IS NULL OR expires_at > (SELECT berth_now()))";
const HAS_EXPIRED = "expires_at <= (SELECT berth_now())";
const SIZE = "octet_length(key) + octet_length(value)";

/** SQLite has no booleans. */
type RowOf<Facts extends ValueFacts> = Omit<Facts, "isJson"> & { readonly isJson: boolean | number };

/** Identifies the server and kind that own some values. */
interface Owner {
  readonly tenant: string;
  readonly kind: ValueKind;
  readonly server: string;
}

/** The store of values for both databases. */
export function createValueStore(data: ServerData): ValueStore {
  const { dialect, read, write } = data;
  return {
    async get(tenant, kind, server, key) {
      const sql = `SELECT value, ${FACTS} FROM ${VALUES} WHERE ${OF_SERVER} AND key = $4 AND ${IS_LIVE}`;
      const [found] = await read(rows<RowOf<ValueEntry>>(sql, [tenant, kind, server, key]));
      return found && withFlag<ValueEntry>(found);
    },

    list: (tenant, kind, server, part) => read(list({ tenant, kind, server }, part)),

    async set(tenant, kind, server, key, put) {
      const owner = { tenant, kind, server };
      const mayExceedQuota = put.room.storedBytesMax !== undefined;
      const freeStorage = (condition: string, values: readonly unknown[]): Promise<number> => {
        const expired = `${condition} AND ${HAS_EXPIRED} LIMIT ${EXPIRED_FOR_STORAGE}`;
        return write(tenant, () => removeValues(dialect, expired, values), { isDurable: false });
      };
      for (;;) {
        try {
          return await write(tenant, () => set(data, owner, key, put), { mayExceedQuota });
        } catch (error) {
          // Remove expired values, first those of the server itself, until the new value fits or none are left.
          if ((error as BerthError).code !== put.room.code) throw error;
          const removed =
            (await freeStorage(OF_SERVER, ownerKey(owner))) || (await freeStorage(OF_KIND, [tenant, kind]));
          if (removed === 0) throw error;
        }
      }
    },

    delete: (tenant, kind, server, key, removal = {}) =>
      write(tenant, () => remove(dialect, { tenant, kind, server }, key, removal)),

    async clear(tenant, kind, server, by) {
      const left = newAlias();
      const keys = await write(tenant, () => moveToAlias(dialect, { tenant, kind, server }, left, by));
      if (keys > 0) await data.removeAliasData(left);
      return keys;
    },

    async sizes(tenant, kind) {
      const sql = "SELECT server, items AS keys, bytes FROM server_data WHERE tenant = $1 AND kind = $2 AND items > 0";
      return (await read(rows<ValueSize>(sql, [tenant, kind]))).sort((a, b) => (a.server < b.server ? -1 : 1));
    },
  };
}

/** Returns a page of live values. A page skips a bounded number of expired ones. */
function* list(owner: Owner, { prefix, max, valueBytesMax, ...part }: ValuePart): Steps<ValuePage> {
  const end = prefixEnd(prefix);
  const items: ValueItem[] = [];
  let [skipped, bytes, after] = [0, 0, part.after ?? ""];
  for (;;) {
    // One more than requested shows whether there is a next page.
    const atOnce = Math.max(max - items.length + 1, ROWS_AT_ONCE);
    const remainingBytes = valueBytesMax === undefined ? undefined : valueBytesMax - bytes;
    const found = yield* rows<ListedRow>(listSql(end !== undefined, remainingBytes !== undefined), [
      ...ownerKey(owner),
      prefix,
      after,
      atOnce,
      ...(end === undefined ? [] : [end]),
      ...(remainingBytes === undefined ? [] : [remainingBytes, items.length === 0]),
    ]);
    for (const { isLive, through: _through, value, ...item } of found) {
      if (items.length === max || skipped === EXPIRED_SKIPPED) return { items, next: after };
      if (!isLive) skipped++;
      else if (remainingBytes === undefined) items.push(withFlag<ValueItem>(item));
      else if (value === null) return { items, next: after };
      else {
        bytes += item.bytes;
        items.push(withFlag<ValueItem>({ ...item, value }));
      }
      after = item.key;
    }
    if (found.length < atOnce) return { items, next: undefined };
  }
}

type ListedRow = RowOf<Omit<ValueItem, "value">> & {
  readonly isLive: boolean | number;
  /** The total size of the live values so far. */
  readonly through: number;
  /** Null if the value does not fit into the remaining bytes. */
  readonly value: Uint8Array | null;
};

/** A single statement, so that values and sizes are consistent. Reads only values that are returned. */
function listSql(hasEnd: boolean, hasValues: boolean): string {
  const [remaining, isFirst] = hasEnd ? ["$8", "$9"] : ["$7", "$8"];
  const value = `CASE WHEN "isLive" AND (through <= ${remaining} OR (${isFirst} AND through = bytes))
    THEN (SELECT value FROM server_value AS one WHERE one.id = counted.id) END AS value`;
  return `SELECT key, bytes, version, "changedAt", "expiresAt", "isJson", "isLive", through${hasValues ? `, ${value}` : ""}
    FROM (SELECT *, sum(CASE WHEN "isLive" THEN bytes ELSE 0 END) OVER (ORDER BY key) AS through FROM (
      SELECT server_value.id, key, octet_length(value) AS bytes, ${FACTS}, ${IS_LIVE} AS "isLive" FROM ${VALUES}
      WHERE ${OF_SERVER} AND key >= $4 AND key > $5${hasEnd ? " AND key < $7" : ""} ORDER BY key LIMIT $6) AS found) AS counted
    ORDER BY key`;
}

function* set(data: ServerData, owner: Owner, key: string, put: ValuePut): Steps<number | undefined> {
  const { value, isJson, expiresAt, expected, room, by } = put;
  let before = yield* find(owner, key);
  if (before.hasExpired) {
    yield* removeExpired(data.dialect, before.owner, EXPIRED_WITH_WRITE);
    before = yield* find(owner, key);
  }
  if (expected !== undefined && before.version !== expected) return undefined;
  const growth = { items: before.bytes === null ? 1 : 0, bytes: valueSize(key, value) - (before.bytes ?? 0) };
  yield* checkQuotas(data, owner, growth, room, before);
  // Versions follow the clock, so they are greater than those in a store that was replaced by its backup.
  const version = Math.max(before.latest + 1, before.now);
  const written = { ...owner, key, value, isJson, version, changedAt: before.now, expiresAt, growth };
  yield* data.dialect.putValues(owner.tenant, [written]);
  yield* recordChange(data.dialect, owner, by, "set", key);
  return version;
}

function* remove(dialect: Dialect, owner: Owner, key: string, removal: ValueRemoval): Steps<boolean | undefined> {
  const { expected, by } = removal;
  const { version, bytes } = yield* find(owner, key);
  if (expected !== undefined && version !== expected) return undefined;
  if (bytes !== null) {
    const ids = `SELECT server_value.id FROM ${VALUES} WHERE ${OF_SERVER} AND key = $4`;
    yield* dialect.removeRows("server_value", SIZE, ids, [...ownerKey(owner), key]);
  }
  // A key that had expired counts as absent.
  if (version === 0) return false;
  yield* recordChange(dialect, owner, by, "deleted", key);
  return true;
}

/** Moves all values of a server to an alias. Returns their number. */
function* moveToAlias(dialect: Dialect, owner: Owner, left: string, by: string): Steps<number> {
  const [moved] = yield* rows<{ items: number; version: number }>(
    `UPDATE server_data SET tenant = $4 WHERE ${OF_SERVER} AND items > 0 RETURNING items, version`,
    [...ownerKey(owner), left],
  );
  if (!moved) return 0;
  // Versions continue from there, so that a version that a client has cached never matches a later value.
  yield* rows("INSERT INTO server_data (tenant, kind, server, items, bytes, version) VALUES ($1, $2, $3, 0, 0, $4)", [
    ...ownerKey(owner),
    moved.version,
  ]);
  yield* recordChange(dialect, owner, by, "cleared");
  return moved.items;
}

/** The state of a key and of its server before a change. */
interface KeyState {
  readonly now: number;
  /** The id of the server's row in `server_data`; null if the server has none. */
  readonly owner: number | null;
  /** True if any key of the server has expired. */
  readonly hasExpired: boolean | number;
  /** 0 if the key does not exist or has expired. */
  readonly version: number;
  /** The size of the key and its value, expired or not; null if the key does not exist. */
  readonly bytes: number | null;
  /** The highest version that any key of the server ever had. */
  readonly latest: number;
  readonly itemsOfServer: number;
  readonly bytesOfServer: number;
}

function* find(owner: Owner, key: string): Steps<KeyState> {
  const [state] = yield* rows<KeyState>(
    `SELECT now, owner.id AS owner, coalesce(owner.version, 0) AS latest, ${SIZE} AS bytes,
       EXISTS (SELECT 1 FROM server_value AS other WHERE other.server_id = owner.id AND other.expires_at <= now) AS "hasExpired",
       CASE WHEN expires_at <= now THEN 0 ELSE coalesce(server_value.version, 0) END AS version,
       coalesce(owner.items, 0) AS "itemsOfServer", coalesce(owner.bytes, 0) AS "bytesOfServer"
     FROM (SELECT berth_now() AS now) AS clock
     LEFT JOIN server_data AS owner ON ${OF_SERVER}
     LEFT JOIN server_value ON server_id = owner.id AND key = $4`,
    [...ownerKey(owner), key],
  );
  return state!;
}

interface Growth {
  readonly items: number;
  readonly bytes: number;
}

/** Throws the code of the quota if a limit is exceeded. */
function* checkQuotas(
  data: ServerData,
  { tenant, kind, server }: Owner,
  growth: Growth,
  { code, settings, keysPerServer, bytesPerServer, bytesPerTenant, storedBytesMax }: ValueQuota,
  { itemsOfServer, bytesOfServer }: KeyState,
): Steps<void> {
  const check = (subject: string, sum: number, max: number, unit: string, setting = ""): void => {
    if (sum > max)
      throw new BerthError(code, `${subject} would store ${sum} ${unit}, more than the limit of ${max}${setting}`);
  };
  const serverLabel = `the server "${server}"`;
  if (growth.items > 0) check(serverLabel, itemsOfServer + growth.items, keysPerServer, "keys");
  if (growth.bytes <= 0) return;
  check(serverLabel, bytesOfServer + growth.bytes, bytesPerServer, "bytes", ` (${settings.server})`);
  const stored = yield* dataBytes(tenant);
  const tenantBytes = stored[kind] + growth.bytes;
  check("all servers of the tenant", tenantBytes, bytesPerTenant, "bytes", ` (${settings.tenant})`);
  if (storedBytesMax !== undefined) yield* data.checkQuota(tenant, stored, growth.bytes, storedBytesMax, code);
}

/** Passes the values of a tenant's servers to `visit` in batches, as they may be large. */
export function* forValues(tenant: string, visit: (values: readonly Uint8Array[]) => Steps<void>): Steps<void> {
  for (let owner = { id: 0, kind: "", server: "" }; ;) {
    const [next] = yield* rows<typeof owner>(
      `SELECT id, kind, server FROM server_data WHERE tenant = $1 AND (kind, server) > ($2, $3) AND items > 0
       ORDER BY kind, server LIMIT 1`,
      [tenant, owner.kind, owner.server],
    );
    if (!next) return;
    owner = next;
    for (let after = ""; ;) {
      const found = yield* rows<{ key: string; value: Uint8Array }>(
        `SELECT key, value FROM server_value WHERE server_id = $1 AND key > $2 ORDER BY key LIMIT ${VALUES_AT_ONCE}`,
        [owner.id, after],
      );
      yield* visit(found.map(({ value }) => value));
      if (found.length < VALUES_AT_ONCE) break;
      after = found.at(-1)!.key;
    }
  }
}

/** The servers with expired values, by the ids of their rows in `server_data`. */
export function expiredOwners(): Steps<{ readonly tenant: string; readonly id: number }[]> {
  return rows(
    `SELECT tenant, id FROM server_data WHERE tenant NOT LIKE '${ALIAS}%' AND EXISTS (
       SELECT 1 FROM server_value WHERE server_id = server_data.id AND ${HAS_EXPIRED})`,
  );
}

/** Removes at most `max` expired values of one of `expiredOwners`. Returns their number. */
export function removeExpired(dialect: Dialect, owner: number | null, max: number): Steps<number> {
  return removeValues(dialect, `server_id = $1 AND ${HAS_EXPIRED} ORDER BY expires_at LIMIT ${max}`, [owner]);
}

/** Removes the first values that match a condition, as many as one transaction may remove. Returns their number. */
function removeValues(dialect: Dialect, condition: string, values: readonly unknown[]): Steps<number> {
  const found = `SELECT server_value.id, ${SIZE} AS bytes FROM ${VALUES} WHERE ${condition}`;
  return dialect.removeRows("server_value", SIZE, dialect.selectRemovable(found), values);
}

/**
 * Removes the rows of servers that have no values and have stored none for a day. Versions follow the clock, so those
 * of later values will still be greater.
 */
export function removeEmptyOwners(): Steps<object[]> {
  return rows(`DELETE FROM server_data WHERE items = 0 AND version < (SELECT berth_now()) - ${DAY_MS}`);
}

/** Records a change made by a person. */
function* recordChange(
  dialect: Dialect,
  { tenant, kind, server }: Owner,
  by: string | undefined,
  action: string,
  key?: string,
): Steps<void> {
  if (by === undefined) return;
  const facts = { action, ...parseActor(by), server, ...(key !== undefined && { key }) };
  yield* appendLinks(dialect, [auditEntry(tenant, kind, facts)]);
}

function ownerKey({ tenant, kind, server }: Owner): readonly string[] {
  return [tenant, kind, server];
}

function withFlag<Facts extends ValueFacts>(row: RowOf<Facts>): Facts {
  return { ...row, isJson: Boolean(row.isJson) } as Facts;
}
