import type Database from "#better-sqlite3";
import { cidsIn, type Cid } from "../../lib/cid.ts";
import { CollectionSums, partsOf, type ChangeAfter, type NameChangeRow } from "../collection-sums.ts";
import { CHANGE_BYTES, isPackage } from "../rules.ts";
import type { CollectionOrder, CollectionResult, TenantCollection } from "../store.ts";
import { storeNow } from "./clock.ts";
import { UNHELD } from "./left-claims.ts";
import { MUST_SCRUB } from "./scrub.ts";
import { removeExpiredState } from "./state.ts";
import type { ClaimedBytes, Turns } from "./turns.ts";

/** Rows that are read or written at once. */
const ROWS = 200;
/** Changes of names that are followed while others wait. */
const FEW = 20;
/** Bytes of content that are removed at once, where there is more than one content. */
const BYTES = 4 * 1024 * 1024;
/** Contents that are looked at together for any that nobody has a claim on. */
const IDS = 2_000;

/**
 * One collection of a SQLite file, on a connection of its own. For each tenant it finds all that names mean, or meant
 * within their time, with everything that such content names, as far as the tenant has it. A CID counts wherever it stands
 * in a content: a text that only looks like a reference keeps content that could go, and nothing that is needed ever goes.
 *
 * The rest is noted with the time, then loses its claim, then is removed; a change that refers to it takes it
 * back in its own transaction (`SqliteContent.takeBack`). Each transaction here is short, and writes nothing where the
 * tenant has changed names since they were read.
 */
export async function collection(
  database: Database.Database,
  { tenants, graceMs, isTrial = false }: CollectionOrder,
  turns: Turns,
): Promise<CollectionResult> {
  const statements = prepare(database);
  const sums = new CollectionSums();
  const immediately = <T>(work: () => T): T => database.transaction(work).immediate();

  /** Removes contents that nobody has any claim on, as many as may go at once. */
  const removeUnheld = (ids: readonly number[]): void => {
    for (const id of ids) {
      const { bytes, isPackage } = statements.sizeOf.get(id) ?? { bytes: 0, isPackage: 0 };
      if (statements.removeUnheld.run({ id }).changes > 0) sums.add("freed", isPackage ? "packages" : "content", bytes);
    }
  };

  /** Counts what is there, unless somebody else holds it, too. */
  const addLeft = (tenant: string, { id, isPackage, bytes }: Claim, goes: boolean): void => {
    if (statements.isShared.get({ id, tenant })) return;
    sums.add(goes ? "freed" : "waiting", isPackage ? "packages" : "content", bytes);
  };

  async function collectTenant({ tenant, historyMs }: TenantCollection): Promise<void> {
    const reach = new Reach(statements, tenant, turns);
    const claims: ClaimedBytes = { tenant, bytes: 0 };
    let known = statements.latest.get() ?? 0;

    /** Marks what was referred to since; false where all that the tenant has was replaced. */
    const catchUp = async (changes: readonly ChangeAfter[], rests: boolean): Promise<boolean> => {
      const latest = statements.latest.get() ?? 0;
      if (latest < known || changes.some(({ kind }) => kind === "tenant")) return false;
      for (const { cid } of changes) if (cid !== null) await reach.mark(cid, rests);
      known = changes.at(-1)?.id ?? known;
      return true;
    };
    /** A transaction in which everything that the tenant's names mean is marked; false where that cannot be. */
    const settled = async (work: () => void): Promise<boolean> => {
      for (;;) {
        if (!(await catchUp(statements.changesAfter.all(known, tenant), true))) return false;
        const done = await turns.write(async () => {
          claims.bytes = 0;
          // The few that came until nobody else writes; more of them are marked in turns.
          const changes = statements.changesAfter.all(known, tenant);
          if (changes.length > FEW) return "again";
          if (!(await catchUp(changes, false))) return "replaced";
          return immediately(() => {
            if (statements.hasChanged.get(known, tenant)) return "again";
            work();
            return "done";
          });
        }, claims);
        if (done !== "again") return done === "done";
      }
    };

    const replaced = await markNames(reach, tenant, historyMs > 0 ? storeNow() - historyMs : -Infinity);
    await markRecords(reach, tenant);
    await markState(reach, tenant);
    // A release that something names, such as a withdrawal, an entry, or a task, stays addressable.
    const isPinned = ({ kind, cid }: NameChangeRow): boolean => kind === "release" && cid !== null && reach.has(cid);
    const lapsed = replaced.filter((change) => !isPinned(change)).map(({ id }) => id);
    sums.lapsed += lapsed.length;
    if (!isTrial) {
      for (const some of partsOf(lapsed, ROWS)) {
        const remove = (): void => {
          for (const id of some) statements.removeChange.run(id);
          claims.bytes -= some.length * CHANGE_BYTES;
        };
        if (!(await settled(remove))) return;
      }
      for (const some of partsOf(reach.leaves, ROWS)) {
        await turns.write(() =>
          immediately(() => some.forEach(({ id, cid, isPackage }) => statements.addLeaf.run(isPackage, id, cid))),
        );
      }
    }

    for await (const claimed of pages(statements.claims, tenant, 0, turns)) {
      const left = claimed.filter(({ cid, since }) => since === null && !reach.has(cid));
      if (isTrial) for (const claim of left) addLeft(tenant, claim, graceMs === 0);
      else if (left.length > 0) {
        const note = (): void => {
          for (const { id, cid } of left) if (!reach.has(cid)) statements.note.run(tenant, storeNow(), id, cid, tenant);
        };
        if (!(await settled(note))) return;
      }
    }
    if (!(await collectNoted(claims, reach, settled))) return;

    for await (const results of pages(statements.results, tenant, "", turns)) {
      const isLeft = ({ sources }: Result): boolean =>
        sources !== null && !sources.split(" ").some((cid) => reach.has(cid));
      const left = results.filter(isLeft);
      if (isTrial) for (const { bytes } of left) sums.add("freed", "compiled", bytes);
      else if (left.length > 0) {
        const release = (): void => {
          for (const result of left) {
            if (!isLeft(result)) continue;
            statements.releaseResult.run(tenant, result.key);
            claims.bytes -= result.bytes;
            removeResult(result);
          }
        };
        if (!(await settled(release))) return;
      }
    }
  }

  /** Goes on with what was noted before: false where the tenant was replaced meanwhile. */
  async function collectNoted(
    claims: ClaimedBytes,
    reach: Reach,
    settled: (work: () => void) => Promise<boolean>,
  ): Promise<boolean> {
    const { tenant } = claims;
    const isDue = ({ since }: Noted): boolean => since <= storeNow() - graceMs;
    for await (const noted of pages(statements.noted, tenant, 0, turns)) {
      for (const some of partsOf(noted, ROWS, BYTES)) {
        if (isTrial) {
          for (const each of some) {
            const goes = graceMs === 0 || (!each.isClaimed && isDue(each));
            if (!reach.has(each.cid)) addLeft(tenant, each, goes);
          }
          continue;
        }
        const goOn = (): void => {
          for (const { id, cid } of some) {
            let now = statements.notedNow.get(tenant, id);
            if (!now || now.cid !== cid) continue;
            if (reach.has(cid)) {
              if (statements.claim.run(tenant, id).changes > 0) claims.bytes += now.bytes;
              statements.forget.run(tenant, id);
              continue;
            }
            if (now.isClaimed && isDue(now)) {
              statements.releaseContent.run(tenant, id);
              claims.bytes -= now.bytes;
              now = { ...now, isClaimed: 0, since: storeNow() };
              statements.hide.run(now.since, tenant, id);
            }
            if (now.isClaimed || !isDue(now)) addLeft(tenant, now, false);
            else {
              statements.forget.run(tenant, id);
              removeUnheld([id]);
            }
          }
        };
        if (!(await settled(goOn))) return false;
      }
    }
    return true;
  }

  /** Marks what names mean, and meant since `after`. Returns the changes whose meanings were replaced before. */
  async function markNames(reach: Reach, tenant: string, after: number): Promise<NameChangeRow[]> {
    const lapsed: NameChangeRow[] = [];
    const latest = statements.latest.get() ?? 0;
    let last: NameChangeRow | undefined;
    const look = async (change: NameChangeRow, next: NameChangeRow | undefined): Promise<void> => {
      const isReplaced = next !== undefined && next.kind === change.kind && next.name === change.name;
      // The very latest change tells other processes how far they have read.
      const isGone = isReplaced ? next.changedAt < after : change.cid === null && change.changedAt < after;
      if (isGone && change.id !== latest) lapsed.push(change);
      else if (change.cid !== null) await reach.mark(change.cid);
    };
    for (;;) {
      const from = last ?? { kind: "", name: "", id: 0 };
      const changes = statements.changes.all(tenant, from.kind, from.name, from.id);
      for (const change of changes) {
        if (last) await look(last, change);
        last = change;
      }
      if (changes.length < ROWS) break;
      await turns.rest();
    }
    if (last) await look(last, undefined);
    for (const cid of statements.meanings.all(tenant)) await reach.mark(cid);
    return lapsed;
  }

  /** Marks the content that tasks, sessions and streams name, which may have begun in a release. */
  async function markRecords(reach: Reach, tenant: string): Promise<void> {
    for (let from = { kind: "", key: "" }; ;) {
      const records = statements.records.all(tenant, from.kind, from.key);
      for (const { value } of records) for (const cid of cidsIn(Buffer.from(value))) await reach.mark(cid);
      if (records.length < ROWS) return;
      from = records.at(-1)!;
      await turns.rest();
    }
  }

  /** Marks the content that servers remember. */
  async function markState(reach: Reach, tenant: string): Promise<void> {
    for (const server of statements.stateServers.all(tenant)) {
      for (let from = ""; ;) {
        const entries = statements.state.all(server, from);
        for (const { value } of entries) for (const cid of cidsIn(value)) await reach.mark(cid);
        await turns.rest();
        if (entries.length < ROWS) break;
        from = entries.at(-1)!.key;
      }
    }
  }

  const removeResult = ({ key, id, bytes }: Result): void => {
    if (statements.removeResult.run({ key }).changes === 0) return;
    sums.add("freed", "compiled", bytes);
    statements.removeUnheld.run({ id });
  };

  /** Removes what the last calls of tenants wrote that were deleted meanwhile. */
  async function removeRemains(): Promise<void> {
    for (const { next, some, remove } of statements.remains) {
      for (let tenant = next.get(""); tenant !== undefined; tenant = next.get(tenant)) {
        const gone = tenant;
        await turns.rest();
        if (!statements.wasDeleted.get({ tenant: gone })) continue;
        for (let isOver = false; !isOver;) {
          isOver = await turns.write(() =>
            immediately(() => {
              if (!statements.wasDeleted.get({ tenant: gone })) return true;
              const ids = some.all(gone);
              for (const id of ids) remove.run(gone, id);
              if (ids.length > 0) statements.mustScrub.run();
              return ids.length < ROWS;
            }),
          );
        }
      }
    }
  }

  /** Removes state that has expired: writes do that, too, where there are any. */
  async function removeExpired(): Promise<void> {
    const removeSome = removeExpiredState(database);
    while ((await turns.write(() => immediately(removeSome))) > 0);
  }

  async function removeUnheldParts(): Promise<void> {
    for (let key = ""; ;) {
      const results = statements.unheldResults.all(key);
      if (results.length > 0) await turns.write(() => immediately(() => results.forEach(removeResult)));
      if (results.length < ROWS) break;
      key = results.at(-1)!.key;
      await turns.rest();
    }
    const last = statements.lastContent.get() ?? 0;
    for (let from = 0; from <= last; from += IDS) {
      const unheld = statements.unheld.all({ from, to: from + IDS });
      for (const some of partsOf(unheld, ROWS, BYTES)) {
        await turns.write(() => immediately(() => removeUnheld(some.map(({ id }) => id))));
      }
      await turns.rest();
    }
  }

  for (const each of tenants) await collectTenant(each);
  if (!isTrial) {
    await removeExpired();
    await removeRemains();
    await removeUnheldParts();
  }
  return sums.collected(statements.freePages.get()! * statements.pageBytes.get()!);
}

/** The content that one tenant refers to. */
class Reach {
  /** Contents that were read and name no other. */
  readonly leaves: { readonly id: number; readonly cid: Cid; readonly isPackage: 0 | 1 }[] = [];
  readonly #statements: Statements;
  readonly #tenant: string;
  readonly #turns: Turns;
  readonly #reached = new Set<Cid>();

  constructor(statements: Statements, tenant: string, turns: Turns) {
    this.#statements = statements;
    this.#tenant = tenant;
    this.#turns = turns;
  }

  has(cid: Cid): boolean {
    return this.#reached.has(cid);
  }

  /** With `rests`, others have their turns meanwhile. */
  async mark(root: Cid, rests = true): Promise<void> {
    const waiting = this.#add(root);
    for (let found = waiting.pop(); found; found = waiting.pop()) {
      const { id, cid } = found;
      const bytes = this.#statements.bytes.get(id, cid);
      if (!bytes) continue;
      const named = cidsIn(bytes);
      if (named.size === 0) this.leaves.push({ id, cid, isPackage: isPackage(bytes) ? 1 : 0 });
      for (const each of named) waiting.push(...this.#add(each));
      if (rests) await this.#turns.rest();
    }
  }

  /** Returns what is to be read, if that is not known. Texts that lead to nothing of the tenant take no memory. */
  #add(cid: Cid): { id: number; cid: Cid }[] {
    if (this.#reached.has(cid)) return [];
    const found = this.#statements.had.get({ tenant: this.#tenant, cid });
    if (!found) return [];
    this.#reached.add(cid);
    return found.isLeaf ? [] : [{ id: found.id, cid }];
  }
}

/** The rows of a tenant, page by page, by what they are sorted by. */
async function* pages<Row extends { readonly at: number | string }>(
  statement: Database.Statement<[string, number | string], Row>,
  tenant: string,
  start: number | string,
  turns: Turns,
): AsyncGenerator<Row[]> {
  for (let at = start; ; await turns.rest()) {
    const rows = statement.all(tenant, at);
    if (rows.length > 0) yield rows;
    if (rows.length < ROWS) return;
    ({ at } = rows.at(-1)!);
  }
}

interface Claim {
  readonly at: number;
  readonly id: number;
  readonly cid: Cid;
  readonly bytes: number;
  readonly isPackage: number;
  readonly since: number | null;
}

interface Noted extends Claim {
  readonly since: number;
  readonly isClaimed: number;
}

interface Result {
  readonly at: string;
  readonly key: string;
  readonly id: number;
  readonly bytes: number;
  readonly sources: string | null;
}

type Statements = ReturnType<typeof prepare>;

/** Changes that belong to the installation and not to the tenant. */
const OF_PLACE = "('tenant', 'token')";

function prepare(database: Database.Database) {
  const isPackage = "coalesce((SELECT is_package FROM content_leaf WHERE content_id = content.id), 0) AS isPackage";
  const ofContent = `content.id AS at, content.id, cid, LENGTH(bytes) AS bytes, ${isPackage}`;
  const noted = `SELECT ${ofContent}, since,
      EXISTS (SELECT 1 FROM tenant_content AS held WHERE held.tenant = left_content.tenant AND held.content_id = content.id) AS isClaimed
    FROM left_content JOIN content ON id = content_id WHERE left_content.tenant = ?`;
  const result = `derived.key AS at, derived.key, content_id AS id, LENGTH(bytes) AS bytes`;
  const remain = (table: string, id: string, of = "") => ({
    next: database
      .prepare<[string], string>(`SELECT tenant FROM ${table} WHERE tenant > ? ORDER BY tenant LIMIT 1`)
      .pluck(),
    some: database
      .prepare<[string], number | string>(`SELECT ${id} FROM ${table} WHERE tenant = ? ${of} LIMIT ${ROWS}`)
      .pluck(),
    remove: database.prepare<[string, number | string]>(`DELETE FROM ${table} WHERE tenant = ? AND ${id} = ? ${of}`),
  });
  return {
    latest: database.prepare<[], number | null>("SELECT max(id) FROM name_change").pluck(),
    // The plus keeps SQLite from scanning all that the tenant ever changed, by the index of its names.
    changesAfter: database.prepare<[number, string], ChangeAfter>(
      "SELECT id, kind, cid FROM name_change WHERE id > ? AND +tenant = ? ORDER BY id",
    ),
    hasChanged: database
      .prepare<[number, string], number>("SELECT 1 FROM name_change WHERE id > ? AND +tenant = ? LIMIT 1")
      .pluck(),
    changes: database.prepare<[string, string, string, number], NameChangeRow>(
      `SELECT id, kind, name, cid, changed_at AS changedAt FROM name_change
       WHERE tenant = ? AND (kind, name, id) > (?, ?, ?) AND kind NOT IN ${OF_PLACE}
       ORDER BY kind, name, id LIMIT ${ROWS}`,
    ),
    removeChange: database.prepare<[number]>("DELETE FROM name_change WHERE id = ?"),
    meanings: database.prepare<[string], Cid>("SELECT cid FROM name WHERE tenant = ?").pluck(),
    records: database.prepare<[string, string, string], { kind: string; key: string; value: string }>(
      `SELECT kind, key, value FROM record WHERE tenant = ? AND (kind, key) > (?, ?) ORDER BY kind, key LIMIT ${ROWS}`,
    ),
    stateServers: database.prepare<[string], number>("SELECT id FROM state_server WHERE tenant = ?").pluck(),
    state: database.prepare<[number, string], { key: string; value: Buffer }>(
      `SELECT key, value FROM state WHERE server_id = ? AND key > ? ORDER BY key LIMIT ${ROWS}`,
    ),
    had: database.prepare<[{ tenant: string; cid: Cid }], { id: number; isLeaf: number }>(
      `SELECT id, EXISTS (SELECT 1 FROM content_leaf WHERE content_id = id) AS isLeaf FROM content WHERE cid = @cid AND (
         EXISTS (SELECT 1 FROM tenant_content WHERE tenant = @tenant AND content_id = id)
         OR EXISTS (SELECT 1 FROM left_content WHERE tenant = @tenant AND content_id = id))`,
    ),
    bytes: database.prepare<[number, Cid], Buffer>("SELECT bytes FROM content WHERE id = ? AND cid = ?").pluck(),
    addLeaf: database.prepare<[number, number, Cid]>(
      "INSERT OR IGNORE INTO content_leaf (content_id, is_package) SELECT id, ? FROM content WHERE id = ? AND cid = ?",
    ),
    sizeOf: database.prepare<[number], { bytes: number; isPackage: number }>(
      `SELECT LENGTH(bytes) AS bytes, ${isPackage} FROM content WHERE id = ?`,
    ),
    claims: database.prepare<[string, number | string], Claim>(
      `SELECT ${ofContent},
         (SELECT since FROM left_content AS noted WHERE noted.tenant = held.tenant AND noted.content_id = content.id) AS since
       FROM tenant_content AS held JOIN content ON id = content_id WHERE held.tenant = ? AND content_id > ?
       ORDER BY content_id LIMIT ${ROWS}`,
    ),
    note: database.prepare<[string, number, number, Cid, string]>(
      `INSERT OR IGNORE INTO left_content (tenant, content_id, since) SELECT ?, id, ? FROM content WHERE id = ? AND cid = ?
       AND EXISTS (SELECT 1 FROM tenant_content WHERE tenant = ? AND content_id = id)`,
    ),
    noted: database.prepare<[string, number | string], Noted>(
      `${noted} AND content_id > ? ORDER BY content_id LIMIT ${ROWS}`,
    ),
    notedNow: database.prepare<[string, number], Noted>(`${noted} AND content_id = ?`),
    claim: database.prepare<[string, number]>(
      "INSERT OR IGNORE INTO tenant_content (tenant, content_id) VALUES (?, ?)",
    ),
    releaseContent: database.prepare<[string, number]>(
      "DELETE FROM tenant_content WHERE tenant = ? AND content_id = ?",
    ),
    hide: database.prepare<[number, string, number]>(
      "UPDATE left_content SET since = ? WHERE tenant = ? AND content_id = ?",
    ),
    forget: database.prepare<[string, number]>("DELETE FROM left_content WHERE tenant = ? AND content_id = ?"),
    results: database.prepare<[string, number | string], Result>(
      `SELECT ${result}, (SELECT group_concat(cid, ' ') FROM derived_source WHERE derived_source.key = derived.key) AS sources
       FROM tenant_derived JOIN derived USING (key) JOIN content ON id = content_id
       WHERE tenant = ? AND tenant_derived.key > ? ORDER BY tenant_derived.key LIMIT ${ROWS}`,
    ),
    releaseResult: database.prepare<[string, string]>("DELETE FROM tenant_derived WHERE tenant = ? AND key = ?"),
    removeResult: database.prepare<[{ key: string }]>(
      "DELETE FROM derived WHERE key = @key AND NOT EXISTS (SELECT 1 FROM tenant_derived WHERE key = @key)",
    ),
    unheldResults: database.prepare<[string], Result>(
      `SELECT ${result}, NULL AS sources FROM derived JOIN content ON id = content_id
       WHERE key > ? AND NOT EXISTS (SELECT 1 FROM tenant_derived WHERE tenant_derived.key = derived.key)
       ORDER BY key LIMIT ${ROWS}`,
    ),
    unheld: database.prepare<[{ from: number; to: number }], { id: number; bytes: number }>(
      `SELECT id, LENGTH(bytes) AS bytes FROM content WHERE id > @from AND id <= @to AND ${UNHELD.replaceAll("@id", "content.id")}`,
    ),
    removeUnheld: database.prepare<[{ id: number }]>(`DELETE FROM content WHERE id = @id AND ${UNHELD}`),
    isShared: database
      .prepare<[{ id: number; tenant: string }], number>(
        `SELECT 1 WHERE EXISTS (SELECT 1 FROM tenant_content WHERE content_id = @id AND tenant <> @tenant)
         OR EXISTS (SELECT 1 FROM left_content WHERE content_id = @id AND tenant <> @tenant)
         OR EXISTS (SELECT 1 FROM derived WHERE content_id = @id)`,
      )
      .pluck(),
    lastContent: database.prepare<[], number | null>("SELECT max(id) FROM content").pluck(),
    wasDeleted: database
      .prepare<[{ tenant: string }], number>(
        `SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM tenant WHERE name = @tenant)
         AND EXISTS (SELECT 1 FROM name_change WHERE tenant = @tenant AND kind = 'tenant')`,
      )
      .pluck(),
    // A name stands for content, so it goes first.
    remains: [
      remain("name", "name"),
      remain("name_change", "id", "AND kind <> 'tenant'"),
      remain("record", "id"),
      remain("secret", "name"),
      {
        ...remain("state_server", "id"),
        some: database
          .prepare<[string], number>(
            `SELECT state.id FROM state JOIN state_server ON state_server.id = server_id WHERE tenant = ? LIMIT ${ROWS}`,
          )
          .pluck(),
        remove: database.prepare<[string, number | string]>(
          "DELETE FROM state WHERE server_id IN (SELECT id FROM state_server WHERE tenant = ?) AND id = ?",
        ),
      },
      remain("state_server", "id"),
      {
        ...remain("retained_call_server", "id"),
        some: database
          .prepare<[string], number>(
            `SELECT retained_call.id FROM retained_call JOIN retained_call_server ON retained_call_server.id = server_id
             WHERE tenant = ? LIMIT ${ROWS}`,
          )
          .pluck(),
        remove: database.prepare<[string, number | string]>(
          "DELETE FROM retained_call WHERE server_id IN (SELECT id FROM retained_call_server WHERE tenant = ?) AND id = ?",
        ),
      },
      remain("retained_call_server", "id"),
      remain("left_content", "content_id"),
      remain("tenant_content", "content_id"),
      remain("tenant_derived", "key"),
    ],
    mustScrub: database.prepare<[]>(`UPDATE scrubbed SET through = ${MUST_SCRUB}`),
    freePages: database.prepare<[], number>("PRAGMA freelist_count").pluck(),
    pageBytes: database.prepare<[], number>("PRAGMA page_size").pluck(),
  };
}
