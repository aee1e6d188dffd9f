import type Database from "#better-sqlite3";
import { changeEntry } from "../../audit/audit-entry.ts";
import type { Cid } from "../../lib/cid.ts";
import { reclaim } from "../reach.ts";
import { byName, CHANGE_BYTES, contentMissing, nameMoved } from "../rules.ts";
import type { Change, NameChange, NameChanges, NameKind, NameMove, NameRecord } from "../store.ts";
import { appendAudit } from "./audit.ts";
import { storeNow } from "./clock.ts";
import type { SqliteContent } from "./content.ts";
import type { SqliteDerived } from "./derived.ts";
import { sqliteDialect } from "./dialect.ts";
import { runSteps } from "./steps.ts";
import type { StoredBytes } from "./stored-bytes.ts";

/** SQLite's notation for no limit. */
const ALL = -1;

/** Names and their history in SQLite. Each function is a transaction. */
export function sqliteNames(
  database: Database.Database,
  contents: SqliteContent,
  results: Pick<SqliteDerived, "putAll">,
  storedBytes: StoredBytes,
) {
  const statements = prepare(database);

  /** Undefined if the name already has this meaning. */
  const move = (
    tenant: string,
    by: string,
    changedAt: number,
    { kind, name, cid, expected }: NameMove,
  ): NameMoveResult | undefined => {
    const current = statements.name.get(tenant, kind, name)?.cid ?? null;
    if (expected !== undefined && expected !== current) throw nameMoved(kind, name, expected, current);
    if (cid === current) return undefined;
    if (cid === null) {
      statements.removeName.run(tenant, kind, name);
    } else {
      if (!contents.isClaimed(tenant, cid)) throw contentMissing(kind, name, cid);
      statements.setName.run(tenant, kind, name, cid, changedAt);
    }
    const { lastInsertRowid } = statements.recordChange.run(tenant, kind, name, cid, changedAt, by);
    return { id: Number(lastInsertRowid), kind, name, from: current, cid };
  };

  const change = database.transaction((tenant: string, request: Change) => {
    const { by, put = [], set = [], derived = [], storedBytesMax } = request;
    const changedAt = storeNow();
    const storedBefore = storedBytesMax === undefined ? 0 : storedBytes.current(tenant);
    let added = results.putAll(tenant, derived);
    for (const block of put) {
      if (contents.claim(tenant, block)) added += block.bytes.length;
    }
    added += runSteps(database, reclaim(sqliteDialect, tenant, request));
    const moves = set.flatMap((nameMove) => move(tenant, by, changedAt, nameMove) ?? []);
    const isGrowing = added > 0 || moves.some(({ cid }) => cid !== null);
    added += moves.length * CHANGE_BYTES;
    if (storedBytesMax !== undefined && isGrowing)
      storedBytes.check(storedBefore + added, storedBytesMax, "storage_full");
    if (moves.length > 0) appendAudit(database, changeEntry(tenant, request, moves));
    return { added, numbers: moves.map(({ id }) => id) };
  });

  return {
    get: (tenant: string, kind: NameKind, name: string): NameRecord | undefined => {
      const row = statements.name.get(tenant, kind, name);
      return row && toRecord(kind, row);
    },

    list: (tenant: string, kind: NameKind): NameRecord[] =>
      statements.names
        .all(tenant, kind)
        .map((row) => toRecord(kind, row))
        .sort(byName),

    history: (tenant: string, kind: NameKind, name: string, max = ALL): NameChange[] =>
      statements.history.all(tenant, kind, name, max),

    had: (tenant: string, kind: NameKind, name: string, cid: Cid): boolean =>
      statements.had.get(tenant, kind, name, cid) !== undefined,

    latest: (): number => statements.latest.get() ?? 0,

    changesAfter: (tenant: string, kinds: readonly NameKind[], since: number): NameChanges | undefined => {
      const latest = statements.latest.get() ?? 0;
      if (latest === since) return { latest, changed: [] };
      // A store that replaced this one may not know that change.
      if (latest < since) return undefined;
      const rows = statements.changesAfter.all(since, latest, tenant, JSON.stringify(kinds));
      if (rows.some(({ kind }) => kind === "tenant")) return undefined;
      return { latest, changed: rows as NameChanges["changed"] };
    },

    change(tenant: string, request: Change): readonly number[] {
      const { added, numbers } = change.immediate(tenant, request);
      storedBytes.added(tenant, added);
      return numbers;
    },
  };
}

/** The meaning of a name before and after a change, with the change's number. */
interface NameMoveResult extends Pick<NameMove, "kind" | "name" | "cid"> {
  readonly id: number;
  readonly from: Cid | null;
}

interface NameRow {
  readonly name: string;
  readonly cid: Cid;
  readonly changedAt: number;
}

function toRecord(kind: NameKind, { name, cid, changedAt }: NameRow): NameRecord {
  return { kind, name, cid, changedAt };
}

function prepare(database: Database.Database) {
  return {
    name: database.prepare<[string, string, string], NameRow>(
      "SELECT name, cid, changed_at AS changedAt FROM name WHERE tenant = ? AND kind = ? AND name = ?",
    ),
    names: database.prepare<[string, string], NameRow>(
      "SELECT name, cid, changed_at AS changedAt FROM name WHERE tenant = ? AND kind = ?",
    ),
    setName: database.prepare<[string, string, string, string, number]>(
      "INSERT OR REPLACE INTO name (tenant, kind, name, cid, changed_at) VALUES (?, ?, ?, ?, ?)",
    ),
    removeName: database.prepare<[string, string, string]>(
      "DELETE FROM name WHERE tenant = ? AND kind = ? AND name = ?",
    ),
    recordChange: database.prepare<[string, string, string, string | null, number, string]>(
      "INSERT INTO name_change (tenant, kind, name, cid, changed_at, changed_by) VALUES (?, ?, ?, ?, ?, ?)",
    ),
    latest: database.prepare<[], number | null>("SELECT max(id) FROM name_change").pluck(),
    // The plus makes SQLite use the primary key, rather than scan all changes of the tenant by the index of names.
    changesAfter: database.prepare<[number, number, string, string], { kind: NameKind | "tenant"; name: string }>(
      `SELECT DISTINCT kind, name FROM name_change WHERE id > ? AND id <= ? AND +tenant = ?
       AND (kind = 'tenant' OR kind IN (SELECT value FROM json_each(?)))`,
    ),
    had: database
      .prepare<[string, string, string, string], 1>(
        "SELECT 1 FROM name_change WHERE tenant = ? AND kind = ? AND name = ? AND cid = ? LIMIT 1",
      )
      .pluck(),
    history: database.prepare<[string, string, string, number], NameChange>(
      `SELECT cid, changed_at AS changedAt, changed_by AS "by" FROM name_change
       WHERE tenant = ? AND kind = ? AND name = ? ORDER BY id DESC LIMIT ?`,
    ),
  };
}
