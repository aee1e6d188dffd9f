import type Database from "#better-sqlite3";
import type {
  KeepingServer,
  RetainedCall,
  RetainedCallFacts,
  RetainedCallPage,
  RetainedCallPart,
  RetainedCallRoom,
  NewRetainedCall,
} from "../store.ts";
import { storeNow } from "./clock.ts";
import type { StoredBytes } from "./stored-bytes.ts";

/** The most calls that one step removes, so that it stays short; and more than it adds, where there is no room. */
const AT_ONCE = 32;

/** The part of the SQLite store that keeps calls. Each function is one transaction. */
export function sqliteRetainedCalls(database: Database.Database, storedBytes: Pick<StoredBytes, "lately" | "check">) {
  const statements = prepare(database);

  const removeOne = ({ id, serverId, bytes }: Removable): void => {
    statements.remove.run(id);
    statements.grow.run(-1, -bytes, serverId);
  };

  const placeOf = (tenant: string, server: string): Place => {
    statements.addPlace.run(tenant, server);
    return statements.place.get(tenant, server)!;
  };

  const add = database.transaction((tenant: string, calls: readonly NewRetainedCall[], room: RetainedCallRoom) => {
    const bytes = calls.reduce((sum, { body }) => sum + Buffer.byteLength(body), 0);
    const { storedBytesMax } = room;
    if (storedBytesMax !== undefined)
      storedBytes.check(storedBytes.lately(tenant) + bytes, storedBytesMax, "storage_full");
    for (const { server, at, expiresAt, tool, outcome, micros, principal, body } of calls) {
      const { id } = placeOf(tenant, server);
      statements.add.run(id, at, expiresAt, tool, outcome, micros, principal, body);
      statements.grow.run(1, Buffer.byteLength(body), id);
    }
    const most = calls.length + AT_ONCE;
    for (const server of new Set(calls.map(({ server }) => server))) {
      const place = placeOf(tenant, server);
      const over = Math.min(place.calls - room.callsPerServer, most);
      if (over > 0) for (const oldest of statements.oldest.all(place.id, over)) removeOne(oldest);
    }
    for (let [left, over] = [most, bytesOf(tenant) - room.bytesPerTenant]; left > 0 && over > 0; left--) {
      const [oldest] = statements.oldest.all(statements.fullest.get(tenant)!, 1);
      if (!oldest) break;
      removeOne(oldest);
      over -= oldest.bytes;
    }
  });

  const bytesOf = (tenant: string): number => statements.bytesOf.get(tenant) ?? 0;

  /** Returns the number of those that it removed. */
  const removeSome = database.transaction((tenant: string, server: string, before: number) => {
    const place = statements.place.get(tenant, server);
    if (!place) return 0;
    const some = statements.before.all(place.id, before, AT_ONCE);
    for (const each of some) removeOne(each);
    if (some.length < AT_ONCE) statements.removeEmpty.run(place.id);
    return some.length;
  });

  const removeSomeExpired = database.transaction(() => {
    const some = statements.expired.all(storeNow(), AT_ONCE);
    for (const each of some) removeOne(each);
    return some.length;
  });

  return {
    add: (tenant: string, calls: readonly NewRetainedCall[], room: RetainedCallRoom): void =>
      add.immediate(tenant, calls, room),

    list: (tenant: string, server: string, part: RetainedCallPart): RetainedCallPage => {
      const { max, after, tool = null, outcomes, since = 0, before = Number.MAX_SAFE_INTEGER } = part;
      const found = statements.list.all({
        tenant,
        server,
        at: after?.at ?? Number.MAX_SAFE_INTEGER,
        id: after?.id ?? 0,
        tool,
        outcomes: outcomes ? JSON.stringify(outcomes) : null,
        since,
        before,
        now: storeNow(),
        // One more tells that there is a next page.
        max: max + 1,
      });
      return { calls: found.slice(0, max), isMore: found.length > max };
    },

    get: (tenant: string, server: string, id: number): RetainedCall | undefined =>
      statements.get.get(tenant, server, id, storeNow()),

    servers: (): KeepingServer[] => statements.servers.all(),

    removeSome: (tenant: string, server: string, before: number): number =>
      removeSome.immediate(tenant, server, before),

    hasExpired: (): boolean => statements.expired.get(storeNow(), 1) !== undefined,

    removeSomeExpired: (): number => removeSomeExpired.immediate(),
  };
}

/** The server of some calls. */
interface Place {
  readonly id: number;
  readonly calls: number;
}

interface Removable {
  readonly id: number;
  readonly serverId: number;
  readonly bytes: number;
}

interface ListQuery {
  readonly tenant: string;
  readonly server: string;
  readonly at: number;
  readonly id: number;
  readonly tool: string | null;
  readonly outcomes: string | null;
  readonly since: number;
  readonly before: number;
  readonly now: number;
  readonly max: number;
}

function prepare(database: Database.Database) {
  const facts = "c.id, c.at, c.tool, c.outcome, c.micros, c.principal";
  const found = "FROM retained_call_server AS o JOIN retained_call AS c ON c.server_id = o.id";
  const removable = "SELECT id, server_id AS serverId, octet_length(body) AS bytes FROM retained_call WHERE";
  return {
    place: database.prepare<[string, string], Place>(
      "SELECT id, calls FROM retained_call_server WHERE tenant = ? AND server = ?",
    ),
    addPlace: database.prepare<[string, string]>(
      "INSERT OR IGNORE INTO retained_call_server (tenant, server, calls, bytes) VALUES (?, ?, 0, 0)",
    ),
    grow: database.prepare<[number, number, number]>(
      "UPDATE retained_call_server SET calls = calls + ?, bytes = bytes + ? WHERE id = ?",
    ),
    removeEmpty: database.prepare<[number]>("DELETE FROM retained_call_server WHERE id = ? AND calls = 0"),
    servers: database.prepare<[], KeepingServer>(
      "SELECT tenant, server FROM retained_call_server WHERE calls > 0 AND tenant NOT LIKE '~%' ORDER BY tenant, server",
    ),
    bytesOf: database.prepare<[string], number>("SELECT sum(bytes) FROM retained_call_server WHERE tenant = ?").pluck(),
    fullest: database
      .prepare<[string], number>("SELECT id FROM retained_call_server WHERE tenant = ? ORDER BY bytes DESC, id LIMIT 1")
      .pluck(),
    add: database.prepare<[number, number, number, string, string, number, string | null, string]>(
      `INSERT INTO retained_call (server_id, at, expires_at, tool, outcome, micros, principal, body)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    remove: database.prepare<[number]>("DELETE FROM retained_call WHERE id = ?"),
    oldest: database.prepare<[number, number], Removable>(`${removable} server_id = ? ORDER BY at, id LIMIT ?`),
    before: database.prepare<[number, number, number], Removable>(
      `${removable} server_id = ? AND at < ? ORDER BY at, id LIMIT ?`,
    ),
    expired: database.prepare<[number, number], Removable>(`${removable} expires_at <= ? ORDER BY expires_at LIMIT ?`),
    list: database.prepare<[ListQuery], RetainedCallFacts>(
      `SELECT ${facts} ${found}
       WHERE o.tenant = @tenant AND o.server = @server AND (c.at, c.id) < (@at, @id)
         AND c.at >= @since AND c.at < @before AND c.expires_at > @now AND (@tool IS NULL OR c.tool = @tool)
         AND (@outcomes IS NULL OR c.outcome IN (SELECT value FROM json_each(@outcomes)))
       ORDER BY c.at DESC, c.id DESC LIMIT @max`,
    ),
    get: database.prepare<[string, string, number, number], RetainedCall>(
      `SELECT ${facts}, c.body ${found} WHERE o.tenant = ? AND o.server = ? AND c.id = ? AND c.expires_at > ?`,
    ),
  };
}
