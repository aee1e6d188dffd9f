import { changeEntry } from "../../audit/audit-entry.ts";
import type { Cid } from "../../lib/cid.ts";
import { reclaim } from "../reach.ts";
import { byName, CHANGE_BYTES, contentMissing, nameMoved } from "../rules.ts";
import type {
  NameQuery,
  NameSnapshot,
  Change,
  NameChange,
  NameChanges,
  NameKind,
  NameMove,
  NameRecord,
} from "../store.ts";
import { appendAudit } from "./audit.ts";
import { claimContents, putContents } from "./content.ts";
import type { PostgresDatabase, RunSql } from "./database.ts";
import { putDerived } from "./derived.ts";
import { postgresDialect } from "./dialect.ts";
import type { Feed } from "./feed.ts";
import { runSteps } from "./steps.ts";
import { checkQuota, type StoredSums } from "./stored-bytes.ts";

/** Names and their history in Postgres. */
export function postgresNames({ run }: PostgresDatabase, feed: Feed, storedBytes: StoredSums) {
  return {
    get: async (tenant: string, kind: NameKind, name: string): Promise<NameRecord | undefined> => {
      const [record] = await run<NameRecord>(
        `SELECT kind, name, cid, changed_at AS "changedAt" FROM name WHERE tenant = $1 AND kind = $2 AND name = $3`,
        [tenant, kind, name],
      );
      return record;
    },

    list: async (tenant: string, kind: NameKind): Promise<NameRecord[]> => {
      const found = await run<NameRecord>(
        `SELECT kind, name, cid, changed_at AS "changedAt" FROM name WHERE tenant = $1 AND kind = $2`,
        [tenant, kind],
      );
      return found.sort(byName);
    },

    async meanings(this: void, tenant: string, { kinds, names }: NameQuery): Promise<NameSnapshot> {
      const rows = await run<NameRecord & { latest: number }>(
        `SELECT latest, found.* FROM name_change_counter LEFT JOIN (
           SELECT kind, name, cid, changed_at AS "changedAt" FROM name
           WHERE tenant = $1 AND (kind = ANY ($2) OR (kind, name) IN (SELECT * FROM unnest($3::text[], $4::text[])))
         ) AS found ON true`,
        [tenant, kinds, names.map(({ kind }) => kind), names.map(({ name }) => name)],
      );
      const found = rows.filter(({ kind }) => kind !== null).sort(byName);
      return { latest: rows[0]!.latest, names: found.map(({ latest: _latest, ...record }) => record) };
    },

    history: (tenant: string, kind: NameKind, name: string, max?: number): Promise<NameChange[]> =>
      run<NameChange>(
        `SELECT cid, changed_at AS "changedAt", changed_by AS "by" FROM name_change
         WHERE tenant = $1 AND kind = $2 AND name = $3 ORDER BY id DESC LIMIT $4`,
        [tenant, kind, name, max],
      ),

    had: async (tenant: string, kind: NameKind, name: string, cid: Cid): Promise<boolean> => {
      const found = await run(
        "SELECT 1 FROM name_change WHERE tenant = $1 AND kind = $2 AND name = $3 AND cid = $4 LIMIT 1",
        [tenant, kind, name, cid],
      );
      return found.length > 0;
    },

    latest: async (): Promise<number> => {
      const [counter] = await run<{ latest: number }>("SELECT latest FROM name_change_counter");
      return counter!.latest;
    },

    changesAfter: async (
      tenant: string,
      kinds: readonly NameKind[],
      since: number,
    ): Promise<NameChanges | undefined> => {
      const rows = await run<{ latest: number; kind: NameKind | "tenant" | null; name: string }>(
        `SELECT latest, changed.kind, changed.name
         FROM name_change_counter LEFT JOIN (
           SELECT DISTINCT kind, name FROM name_change
           WHERE id > $1 AND tenant = $2 AND (kind = 'tenant' OR kind = ANY ($3))) AS changed ON true`,
        [since, tenant, kinds],
      );
      const { latest } = rows[0]!;
      // A database that replaced this one may not know that change.
      if (latest < since || rows.some(({ kind }) => kind === "tenant")) return undefined;
      return { latest, changed: rows.flatMap(({ kind, name }) => (kind ? { kind: kind as NameKind, name } : [])) };
    },

    /** Part of a change of the tenant, whose bytes are verified. Returns the numbers of the changes. */
    change: async (run: RunSql, tenant: string, change: Change): Promise<readonly number[]> => {
      const { by, put = [], set = [], derived = [], storedBytesMax } = change;
      const use = storedBytesMax === undefined ? undefined : await runSteps(run, storedBytes.current(tenant));
      const ids = await putContents(run, [...put, ...derived.map(({ block }) => block)]);
      let added = await putDerived(run, tenant, derived, ids);
      if (put.length > 0) {
        const newlyClaimed = await claimContents(run, tenant, new Set(put.map(({ cid }) => ids.get(cid)!)));
        for (const { cid, bytes } of put) if (newlyClaimed.delete(ids.get(cid)!)) added += bytes.length;
      }
      added += await runSteps(run, reclaim(postgresDialect, tenant, change));
      const moved = await moveNames(run, tenant, set);
      const isGrowing = added > 0 || moved.some(({ cid }) => cid !== null);
      if (use && isGrowing) checkQuota(use, added + moved.length * CHANGE_BYTES, storedBytesMax!, "storage_full");
      if (moved.length === 0) return [];
      await appendAudit(run, changeEntry(tenant, change, moved));
      const changes = moved.map(({ kind, name, cid, changedAt }) => ({ tenant, kind, name, cid, changedAt, by }));
      return runSteps(run, feed.record(changes));
    },
  };
}

/** The meaning of a name before and after a change. */
interface NameMoveResult extends Pick<NameMove, "kind" | "name" | "cid"> {
  readonly from: Cid | null;
  readonly changedAt: number;
}

/** Returns the moves that changed the meaning of a name. */
async function moveNames(run: RunSql, tenant: string, set: readonly NameMove[]): Promise<NameMoveResult[]> {
  if (set.length === 0) return [];
  const current = await run<{ cid: Cid | null; isClaimed: boolean; now: number }>(
    `SELECT name.cid, berth_now() AS now, EXISTS (
       SELECT 1 FROM content JOIN tenant_content ON content_id = content.id
       WHERE tenant_content.tenant = $1 AND content.cid = move.cid) AS "isClaimed"
     FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS move (kind, name, cid, at)
     LEFT JOIN name ON name.tenant = $1 AND name.kind = move.kind AND name.name = move.name ORDER BY at`,
    [tenant, ...moveColumns(set)],
  );
  const changedAt = current[0]!.now;
  // One change may move a name more than once.
  const lastMoves = new Map<string, NameMoveResult>();
  const moved = set.flatMap(({ kind, name, cid, expected }, index): NameMoveResult[] => {
    const key = `${kind} ${name}`;
    const previous = lastMoves.get(key);
    const from = previous ? previous.cid : current[index]!.cid;
    if (expected !== undefined && expected !== from) throw nameMoved(kind, name, expected, from);
    if (cid === from) return [];
    if (cid !== null && !current[index]!.isClaimed) throw contentMissing(kind, name, cid);
    const moveNames = { kind, name, from, cid, changedAt };
    lastMoves.set(key, moveNames);
    return [moveNames];
  });
  if (moved.length === 0) return [];
  await run(
    `WITH move AS (SELECT * FROM unnest($3::text[], $4::text[], $5::text[]) AS move (kind, name, cid)),
       gone AS (
         DELETE FROM name USING move
         WHERE tenant = $1 AND name.kind = move.kind AND name.name = move.name AND move.cid IS NULL)
     INSERT INTO name (tenant, kind, name, cid, changed_at)
     SELECT $1, kind, name, cid, $2 FROM move WHERE cid IS NOT NULL
     ON CONFLICT (tenant, kind, name) DO UPDATE SET cid = excluded.cid, changed_at = excluded.changed_at`,
    [tenant, changedAt, ...moveColumns([...lastMoves.values()])],
  );
  return moved;
}

function moveColumns(moves: readonly Pick<NameMove, "kind" | "name" | "cid">[]): (string | null)[][] {
  return [moves.map(({ kind }) => kind), moves.map(({ name }) => name), moves.map(({ cid }) => cid)];
}
