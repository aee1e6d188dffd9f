import type Database from "#better-sqlite3";
import { actorOf, entryOf } from "../../audit/audit-entry.ts";
import { endOf, serverFull, sizeOf, tenantStateFull, whatIsFull } from "../state-rules.ts";
import type {
  KeptState,
  StateEntry,
  StateFacts,
  StateItem,
  StatePage,
  StatePart,
  StatePut,
  StateRemoval,
  StateRoom,
  StateSize,
} from "../store.ts";
import { appendAudit } from "./audit.ts";
import { storeNow } from "./clock.ts";
import type { StoredBytes } from "./stored-bytes.ts";

/** The most expired keys that one write removes, so that no single write pays for all; and more where there is no room. */
const EXPIRED_AT_ONCE = 100;
const EXPIRED_FOR_ROOM = 1_000;
/** The expired keys that one page of a list passes over. */
const EXPIRED_PASSED = 1_000;

/** The part of the SQLite store that keeps the state of servers. Each function is one transaction. */
export function sqliteState(database: Database.Database, storedBytes: Pick<StoredBytes, "lately" | "check">) {
  const statements = prepare(database);

  const remove = (removable: Removable): void => removeIn(statements, removable);

  const removeExpired = (now: number): void => {
    for (const expired of statements.expired.all(now, EXPIRED_AT_ONCE)) remove(expired);
  };

  /** A key that has expired is removed, and counts as absent. */
  const liveKey = (tenant: string, server: string, key: string, now: number): Known | undefined => {
    const known = statements.one.get(tenant, server, key);
    if (!known || known.expiresAt === null || known.expiresAt > now) return known;
    remove(known);
    return undefined;
  };

  const placeOf = (tenant: string, server: string): Place => placeIn(statements, tenant, server);

  /** Throws `state_full`. */
  const checkRoom = (tenant: string, server: string, more: Size, room: StateRoom, now: number): void => {
    const place = placeOf(tenant, server);
    if (whatIsFull(place, more, room) !== undefined) {
      for (const expired of statements.expiredOf.all(place.id, now, EXPIRED_FOR_ROOM)) remove(expired);
      const full = whatIsFull(placeOf(tenant, server), more, room);
      if (full !== undefined) throw serverFull(server, full);
    }
    if (more.bytes <= 0) return;
    if (room.storedBytesMax !== undefined) {
      storedBytes.check(storedBytes.lately(tenant) + more.bytes, room.storedBytesMax, "state_full");
    }
    const bytes = (statements.bytesOfTenant.get(tenant) ?? 0) + more.bytes;
    if (bytes > room.bytesPerTenant) throw tenantStateFull(bytes, room.bytesPerTenant);
  };

  const note = (tenant: string, by: string | undefined, action: string, facts: Readonly<Record<string, string>>) => {
    if (by !== undefined) appendAudit(database, entryOf(tenant, "state", { action, ...actorOf(by), ...facts }));
  };

  const set = database.transaction((tenant: string, server: string, key: string, put: StatePut) => {
    const { value, isJson, expiresAt, expected, room, by } = put;
    const now = storeNow();
    removeExpired(now);
    const known = liveKey(tenant, server, key, now);
    if (expected !== undefined && (known?.version ?? 0) !== expected) return undefined;
    const more = { keys: known ? 0 : 1, bytes: sizeOf(key, value) - (known?.bytes ?? 0) };
    checkRoom(tenant, server, more, room, now);
    const { id, version: latest } = placeOf(tenant, server);
    // Numbers that follow the clock are greater than those of a store that was replaced by its backup.
    const version = Math.max(latest + 1, now);
    statements.write.run(id, key, value, isJson ? 1 : 0, version, now, expiresAt);
    statements.grow.run(more.keys, more.bytes, version, id);
    note(tenant, by, "set", { server, key });
    return version;
  });

  const removeOne = database.transaction(
    (tenant: string, server: string, key: string, { expected, by }: StateRemoval) => {
      const now = storeNow();
      removeExpired(now);
      const known = liveKey(tenant, server, key, now);
      if (expected !== undefined && (known?.version ?? 0) !== expected) return undefined;
      if (!known) return false;
      remove(known);
      note(tenant, by, "deleted", { server, key });
      return true;
    },
  );

  const leave = database.transaction((tenant: string, server: string, by: string, left: string) => {
    const place = statements.place.get(tenant, server);
    if (!place || place.keys === 0) return 0;
    statements.rename.run(left, place.id);
    // Versions go on from there: nobody who remembers one takes a later value for it.
    statements.addPlace.run(tenant, server, place.version);
    note(tenant, by, "cleared", { server });
    return place.keys;
  });

  return {
    get(tenant: string, server: string, key: string): StateEntry | undefined {
      const row = statements.get.get(tenant, server, key, storeNow());
      return row && { value: row.value, ...factsOf(row) };
    },

    list(tenant: string, server: string, { prefix, after, max, valueBytesMax }: StatePart): StatePage {
      const place = statements.place.get(tenant, server);
      if (!place) return { items: [], next: undefined };
      const now = storeNow();
      const query = valueBytesMax === undefined ? statements.keys : statements.keysAndValues;
      const items: StateItem[] = [];
      let [bytes, passed, last] = [0, 0, ""];
      for (const row of query.iterate(place.id, prefix, after ?? "", endOf(prefix) ?? AFTER_ALL)) {
        bytes += row.value?.length ?? 0;
        const isOver = items.length === max || passed === EXPIRED_PASSED;
        if (isOver || (items.length > 0 && bytes > (valueBytesMax ?? Infinity))) return { items, next: last };
        last = row.key;
        if (row.expiresAt !== null && row.expiresAt <= now) passed++;
        else items.push({ key: row.key, bytes: row.bytes, ...factsOf(row), ...(row.value && { value: row.value }) });
      }
      return { items, next: undefined };
    },

    set: (tenant: string, server: string, key: string, put: StatePut) => set.immediate(tenant, server, key, put),
    delete: (tenant: string, server: string, key: string, removal: StateRemoval) =>
      removeOne.immediate(tenant, server, key, removal),
    /** Leaves it behind under the name `left`; returns the number of keys. */
    leave: (tenant: string, server: string, by: string, left: string) => leave.immediate(tenant, server, by, left),
    sizes: (tenant: string): StateSize[] => statements.sizes.all(tenant),
  };
}

/** Returns what removes some of the keys that have expired, of all servers, and their number; part of a transaction. */
export function removeExpiredState(database: Database.Database) {
  const statements = prepare(database);
  return (): number => {
    const expired = statements.expired.all(storeNow(), EXPIRED_AT_ONCE);
    for (const each of expired) removeIn(statements, each);
    return expired.length;
  };
}

function removeIn(statements: Statements, { id, serverId, bytes }: Removable): void {
  statements.remove.run(id);
  statements.grow.run(-1, -bytes, 0, serverId);
}

/** Returns what adds the state of a tenant that is being assembled; part of the caller's transaction. */
export function addState(database: Database.Database) {
  const statements = prepare(database);
  return (tenant: string, { server, key, value, isJson, version, changedAt, expiresAt }: KeptState): void => {
    const { id } = placeIn(statements, tenant, server);
    statements.write.run(id, key, value, isJson ? 1 : 0, version, changedAt, expiresAt);
    statements.grow.run(1, sizeOf(key, value), version, id);
  };
}

function placeIn(statements: Statements, tenant: string, server: string): Place {
  const place = statements.place.get(tenant, server);
  if (place) return place;
  statements.addPlace.run(tenant, server, 0);
  return statements.place.get(tenant, server)!;
}

type Statements = ReturnType<typeof prepare>;

interface Size {
  readonly keys: number;
  readonly bytes: number;
}

/** The server of some state. */
interface Place extends Size {
  readonly id: number;
  readonly version: number;
}

interface Removable {
  readonly id: number;
  readonly serverId: number;
  /** The size of key and value. */
  readonly bytes: number;
}

interface Known extends Removable {
  readonly version: number;
  readonly expiresAt: number | null;
}

interface Row extends Omit<StateFacts, "isJson"> {
  readonly isJson: 0 | 1;
}

interface KeyRow extends Row {
  readonly key: string;
  readonly bytes: number;
  readonly value?: Uint8Array;
}

function factsOf({ version, changedAt, expiresAt, isJson }: Row): StateFacts {
  return { version, changedAt, expiresAt, isJson: isJson === 1 };
}

/** SQLite takes any blob as greater than any text. */
const AFTER_ALL = Buffer.of(0);

function prepare(database: Database.Database) {
  const facts = "s.version, s.changed_at AS changedAt, s.expires_at AS expiresAt, s.is_json AS isJson";
  const found = "FROM state_server AS o JOIN state AS s ON s.server_id = o.id WHERE o.tenant = ? AND o.server = ?";
  const removable = "id, server_id AS serverId, length(CAST(key AS BLOB)) + length(value) AS bytes";
  const keys = (what: string) =>
    database.prepare<[number, string, string, string | Uint8Array], KeyRow>(
      `SELECT s.key, length(s.value) AS bytes, ${facts}${what} FROM state AS s
       WHERE server_id = ? AND key >= ? AND key > ? AND key < ? ORDER BY key`,
    );
  return {
    place: database.prepare<[string, string], Place>(
      "SELECT id, keys, bytes, version FROM state_server WHERE tenant = ? AND server = ?",
    ),
    addPlace: database.prepare<[string, string, number]>(
      "INSERT INTO state_server (tenant, server, keys, bytes, version) VALUES (?, ?, 0, 0, ?)",
    ),
    grow: database.prepare<[number, number, number, number]>(
      "UPDATE state_server SET keys = keys + ?, bytes = bytes + ?, version = max(version, ?) WHERE id = ?",
    ),
    rename: database.prepare<[string, number]>("UPDATE state_server SET tenant = ? WHERE id = ?"),
    bytesOfTenant: database.prepare<[string], number>("SELECT sum(bytes) FROM state_server WHERE tenant = ?").pluck(),
    sizes: database.prepare<[string], StateSize>(
      "SELECT server, keys, bytes FROM state_server WHERE tenant = ? AND keys > 0",
    ),
    get: database.prepare<[string, string, string, number], Row & { readonly value: Uint8Array }>(
      `SELECT s.value, ${facts} ${found} AND s.key = ? AND (s.expires_at IS NULL OR s.expires_at > ?)`,
    ),
    one: database.prepare<[string, string, string], Known>(
      `SELECT s.id, s.server_id AS serverId, length(CAST(s.key AS BLOB)) + length(s.value) AS bytes, s.version,
       s.expires_at AS expiresAt ${found} AND s.key = ?`,
    ),
    keys: keys(""),
    keysAndValues: keys(", s.value"),
    expired: database.prepare<[number, number], Removable>(
      `SELECT ${removable} FROM state WHERE expires_at <= ? ORDER BY expires_at LIMIT ?`,
    ),
    expiredOf: database.prepare<[number, number, number], Removable>(
      `SELECT ${removable} FROM state WHERE server_id = ? AND expires_at <= ? LIMIT ?`,
    ),
    write: database.prepare<[number, string, Uint8Array, number, number, number, number | null]>(
      `INSERT INTO state (server_id, key, value, is_json, version, changed_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (server_id, key) DO UPDATE SET value = excluded.value, is_json = excluded.is_json,
       version = excluded.version, changed_at = excluded.changed_at, expires_at = excluded.expires_at`,
    ),
    remove: database.prepare<[number]>("DELETE FROM state WHERE id = ?"),
  };
}
