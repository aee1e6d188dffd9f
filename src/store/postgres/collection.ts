import { cidsIn, type Cid } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import { ALIAS, newAlias } from "../aliases.ts";
import { CollectionSums, partsOf, type ChangeAfter, type NameChangeRow } from "../collection-sums.ts";
import type { CollectionOrder, CollectionResult, TenantCollection } from "../store.ts";
import type { PostgresDatabase, RunSql } from "./database.ts";
import { purge, removeClaims, removeResults, removeUnheld, UNHELD } from "./left-claims.ts";
import { removeExpired } from "./state.ts";
import { removeLeftovers } from "./tenant-staging.ts";

/** Rows that are read or written at once. */
const ROWS = 200;
/** Rows of state, whose values may be large. */
const STATE_ROWS = 50;
/** Changes of names that are followed while others wait. */
const FEW = 20;
/** Texts that may be CIDs and are looked up at once, and bytes of content read at once, where there are several. */
const CIDS = 1_000;
const BYTES = 1024 * 1024;
/** Contents that are looked at together for any that nobody has a claim on. */
const IDS = 5_000;

const QUICK = { isDurable: false } as const;

/**
 * One collection of a Postgres database. For each tenant it finds all that names mean, or meant within their time, with
 * everything that such content names, as far as the tenant has it. A CID counts wherever it stands in a content: a text
 * that only looks like a reference keeps content that could go, and nothing that is needed ever goes.
 *
 * The rest is noted with the time, then loses its claim, then is removed; a change that refers to it takes it back in its
 * own transaction (`takeBack`). Each transaction here is short and has locked its tenant, and has followed all that the
 * tenant changed until then.
 */
export async function collection(database: PostgresDatabase, order: CollectionOrder): Promise<CollectionResult> {
  const sums = new CollectionSums();
  for (const each of order.tenants) {
    try {
      await new Collecting(database, sums, each, order).collect();
    } catch (error) {
      // The next collection has the new one's.
      if (error !== replaced) throw error;
    }
  }
  if (!order.isTrial) {
    await removeLeftovers(database);
    await removeAllExpired(database);
    await removeRemains(database);
    await removeUnheldParts(database, sums);
  }
  return sums.collected(0);
}

const replaced = new BerthError("store_failed", "the tenant was changed or replaced while it was collected");

/** The collection of one tenant. */
class Collecting {
  readonly #database: PostgresDatabase;
  readonly #sums: CollectionSums;
  readonly #tenant: string;
  readonly #historyMs: number;
  readonly #graceMs: number;
  readonly #isTrial: boolean;
  readonly #reach: Reach;
  /** The number of the last change whose meaning is marked. */
  #known = 0;

  constructor(
    database: PostgresDatabase,
    sums: CollectionSums,
    { tenant, historyMs }: TenantCollection,
    { graceMs, isTrial = false }: CollectionOrder,
  ) {
    this.#database = database;
    this.#sums = sums;
    this.#tenant = tenant;
    this.#historyMs = historyMs;
    this.#graceMs = graceMs;
    this.#isTrial = isTrial;
    this.#reach = new Reach(tenant);
  }

  /** Throws `replaced`. */
  async collect(): Promise<void> {
    const [clock] = await this.#database.run<{ latest: number; now: number }>(
      "SELECT latest, berth_now() AS now FROM name_change_counter",
    );
    this.#known = clock!.latest;
    const lapsed = await this.#markNames(this.#historyMs > 0 ? clock!.now - this.#historyMs : -Infinity);
    await this.#markRecords();
    await this.#markState();
    // A release that something names, such as a withdrawal, an entry, or a task, stays addressable.
    const isPinned = ({ kind, cid }: NameChangeRow): boolean =>
      kind === "release" && cid !== null && this.#reach.has(cid);
    await this.#removeChanges(lapsed.filter((change) => !isPinned(change)).map(({ id }) => id));
    if (!this.#isTrial) await this.#reach.keepLeaves(this.#database);
    await this.#noteClaims();
    await this.#collectNoted();
    await this.#collectResults();
  }

  /** A transaction in which everything that the tenant's names mean is marked. */
  async #settled<T>(work: (run: RunSql) => Promise<T>): Promise<T> {
    for (;;) {
      await this.#follow(this.#database.run, await this.#changes(this.#database.run));
      const done = await this.#database.change(
        this.#tenant,
        async (run) => {
          // The few that came before the lock; more of them are marked without it.
          const changes = await this.#changes(run);
          if (changes.length > FEW) return undefined;
          await this.#follow(run, changes);
          return { result: await work(run) };
        },
        QUICK,
      );
      if (done) return done.result;
    }
  }

  async #changes(run: RunSql): Promise<ChangeAfter[]> {
    // The empty text keeps Postgres from scanning all that the tenant ever changed, by the index of its names.
    const rows = await run<ChangeAfter & { readonly latest: number }>(
      `SELECT latest, id, kind, cid FROM name_change_counter
       LEFT JOIN name_change ON id > $1 AND tenant || '' = $2 ORDER BY id`,
      [this.#known, this.#tenant],
    );
    const changes = rows.filter(({ id }) => id !== null);
    // Another database took over that had not heard of all, or all that the tenant has was replaced.
    if (rows[0]!.latest < this.#known || changes.some(({ kind }) => kind === "tenant")) throw replaced;
    return changes;
  }

  async #follow(run: RunSql, changes: readonly ChangeAfter[]): Promise<void> {
    await this.#reach.mark(
      run,
      changes.flatMap(({ cid }) => cid ?? []),
    );
    this.#known = changes.at(-1)?.id ?? this.#known;
  }

  /** Marks what names mean, and meant since `after`. Returns the changes whose meanings were replaced before. */
  async #markNames(after: number): Promise<NameChangeRow[]> {
    const { run } = this.#database;
    const lapsed: NameChangeRow[] = [];
    let last: NameChangeRow | undefined;
    for (;;) {
      const from = last ?? { kind: "", name: "", id: 0 };
      const changes = await run<NameChangeRow>(
        `SELECT id, kind, name, cid, changed_at AS "changedAt" FROM name_change
         WHERE tenant = $1 AND (kind, name, id) > ($2, $3, $4::bigint) AND kind NOT IN ('tenant', 'token')
         ORDER BY kind, name, id LIMIT ${ROWS}`,
        [this.#tenant, from.kind, from.name, from.id],
      );
      const isOver = changes.length < ROWS;
      const looked = [...(last ? [last] : []), ...changes];
      const kept: Cid[] = [];
      for (const [at, change] of looked.entries()) {
        const next = looked[at + 1];
        if (!next && !isOver) break;
        const isReplaced = next?.kind === change.kind && next.name === change.name;
        const isGone = isReplaced ? next.changedAt < after : change.cid === null && change.changedAt < after;
        if (isGone) lapsed.push(change);
        else if (change.cid !== null) kept.push(change.cid);
      }
      await this.#reach.mark(run, kept);
      if (isOver) break;
      last = changes.at(-1);
    }
    const meanings = await run<{ cid: Cid }>("SELECT DISTINCT cid FROM name WHERE tenant = $1", [this.#tenant]);
    await this.#reach.mark(
      run,
      meanings.map(({ cid }) => cid),
    );
    return lapsed;
  }

  /** Marks the content that tasks, sessions and streams name, which may have begun in a release. */
  async #markRecords(): Promise<void> {
    for (let from = { kind: "", key: "" }; ;) {
      const records = await this.#database.run<{ kind: string; key: string; value: string }>(
        `SELECT kind, key, value FROM record WHERE tenant = $1 AND (kind, key) > ($2, $3)
         ORDER BY kind, key LIMIT ${ROWS}`,
        [this.#tenant, from.kind, from.key],
      );
      await this.#reach.markIn(
        this.#database.run,
        records.map(({ value }) => Buffer.from(value)),
      );
      if (records.length < ROWS) return;
      from = records.at(-1)!;
    }
  }

  /** Marks the content that servers remember. */
  async #markState(): Promise<void> {
    for (let from = { server: 0, key: "" }; ;) {
      const entries = await this.#database.run<{ server: number; key: string; value: Buffer }>(
        `SELECT server_id AS server, key, value FROM state JOIN state_server AS place ON place.id = server_id
         WHERE tenant = $1 AND (server_id, key) > ($2::bigint, $3) ORDER BY server_id, key LIMIT ${STATE_ROWS}`,
        [this.#tenant, from.server, from.key],
      );
      await this.#reach.markIn(
        this.#database.run,
        entries.map(({ value }) => value),
      );
      if (entries.length < STATE_ROWS) return;
      from = entries.at(-1)!;
    }
  }

  async #removeChanges(lapsed: readonly number[]): Promise<void> {
    this.#sums.lapsed += lapsed.length;
    if (this.#isTrial) return;
    for (const some of partsOf(lapsed, ROWS))
      await this.#settled((run) => run("DELETE FROM name_change WHERE id = ANY ($1)", [some]));
  }

  /** Notes what nothing refers to. */
  async #noteClaims(): Promise<void> {
    for (let from = 0; ;) {
      const claims = await this.#database.run<Claim>(
        `SELECT ${CONTENT} FROM tenant_content JOIN content ON id = content_id WHERE tenant = $1 AND content_id > $2
           AND NOT EXISTS (SELECT 1 FROM left_content AS noted WHERE noted.tenant = $1 AND noted.content_id = id)
         ORDER BY content_id LIMIT ${ROWS}`,
        [this.#tenant, from],
      );
      const left = claims.filter(({ cid }) => !this.#reach.has(cid));
      if (this.#isTrial) await this.#addLeft(this.#database.run, this.#graceMs === 0 ? "freed" : "waiting", left);
      else if (left.length > 0) await this.#settled((run) => this.#note(run, left));
      if (claims.length < ROWS) return;
      from = claims.at(-1)!.id;
    }
  }

  async #note(run: RunSql, left: readonly Claim[]): Promise<void> {
    await run(
      `INSERT INTO left_content (tenant, content_id, since)
       SELECT tenant, content_id, berth_now() FROM tenant_content WHERE tenant = $1 AND content_id = ANY ($2)
       ON CONFLICT DO NOTHING`,
      [this.#tenant, left.filter(({ cid }) => !this.#reach.has(cid)).map(({ id }) => id)],
    );
  }

  /** Goes on with what was noted before. */
  async #collectNoted(): Promise<void> {
    for (let from = 0; ;) {
      const noted = await this.#noted(this.#database.run, `> $2 ORDER BY content_id LIMIT ${ROWS}`, from);
      if (this.#isTrial) {
        const left = noted.filter(({ cid }) => !this.#reach.has(cid));
        const goes = (each: Noted): boolean => this.#graceMs === 0 || (!each.isClaimed && this.#isDue(each));
        await this.#addLeft(this.#database.run, "freed", left.filter(goes));
        await this.#addLeft(
          this.#database.run,
          "waiting",
          left.filter((each) => !goes(each)),
        );
      } else if (noted.length > 0) {
        const ids = noted.map(({ id }) => id);
        const { removed, waiting } = await this.#settled((run) => this.#goOn(run, ids));
        for (const { bytes, isPackage } of removed) this.#sums.add("freed", kindOf(isPackage), bytes);
        await this.#addLeft(this.#database.run, "waiting", waiting);
      }
      if (noted.length < ROWS) return;
      from = noted.at(-1)!.id;
    }
  }

  #noted(run: RunSql, which: string, value: number | readonly number[]): Promise<Noted[]> {
    return run<Noted>(
      `SELECT ${CONTENT}, since, berth_now() AS now, EXISTS (SELECT 1 FROM tenant_content AS held
         WHERE held.tenant = $1 AND held.content_id = content.id) AS "isClaimed"
       FROM left_content JOIN content ON id = content_id WHERE tenant = $1 AND content_id ${which}`,
      [this.#tenant, value],
    );
  }

  #isDue({ since, now }: Noted): boolean {
    return since <= now - this.#graceMs;
  }

  async #goOn(run: RunSql, ids: readonly number[]) {
    const noted = await this.#noted(run, "= ANY ($2)", ids);
    const back = noted.filter(({ cid }) => this.#reach.has(cid));
    const left = noted.filter(({ cid }) => !this.#reach.has(cid));
    const hidden = left.filter((each) => each.isClaimed && this.#isDue(each));
    const gone = left.filter((each) => this.#isDue(each) && (!each.isClaimed || this.#graceMs === 0));
    await run(
      `WITH back AS (DELETE FROM left_content WHERE tenant = $1 AND content_id = ANY ($2) RETURNING content_id),
         gone AS (DELETE FROM left_content WHERE tenant = $1 AND content_id = ANY ($3)),
         hidden AS (DELETE FROM tenant_content WHERE tenant = $1 AND content_id = ANY ($4)),
         later AS (UPDATE left_content SET since = berth_now() WHERE tenant = $1 AND content_id = ANY ($5))
       INSERT INTO tenant_content (tenant, content_id) SELECT $1, content_id FROM back ON CONFLICT DO NOTHING`,
      [this.#tenant, ...[back, gone, hidden, hidden.filter((each) => !gone.includes(each))].map(idsOf)],
    );
    return { removed: await removeUnheld(run, idsOf(gone)), waiting: left.filter((each) => !gone.includes(each)) };
  }

  /** Counts what is there, unless somebody else holds it, too. */
  async #addLeft(run: RunSql, what: "freed" | "waiting", left: readonly Claim[]): Promise<void> {
    if (left.length === 0) return;
    const shared = await run<{ id: number }>(
      `SELECT id FROM content WHERE id = ANY ($1) AND (
         EXISTS (SELECT 1 FROM tenant_content WHERE content_id = id AND tenant <> $2)
         OR EXISTS (SELECT 1 FROM left_content WHERE content_id = id AND tenant <> $2)
         OR EXISTS (SELECT 1 FROM derived WHERE content_id = id))`,
      [idsOf(left), this.#tenant],
    );
    const others = new Set(idsOf(shared));
    for (const { id, isPackage, bytes } of left) if (!others.has(id)) this.#sums.add(what, kindOf(isPackage), bytes);
  }

  /** Releases results of which nothing is left that they were made of. */
  async #collectResults(): Promise<void> {
    for (let from = ""; ;) {
      const results = await this.#database.run<Result>(
        `SELECT key, octet_length(bytes) AS bytes,
           ARRAY (SELECT cid FROM derived_source WHERE derived_source.key = derived.key) AS sources
         FROM tenant_derived JOIN derived USING (key) JOIN content ON id = content_id
         WHERE tenant = $1 AND key > $2 ORDER BY key LIMIT ${ROWS}`,
        [this.#tenant, from],
      );
      const isLeft = ({ sources }: Result): boolean =>
        sources.length > 0 && !sources.some((cid) => this.#reach.has(cid));
      const left = results.filter(isLeft);
      if (this.#isTrial) for (const { bytes } of left) this.#sums.add("freed", "compiled", bytes);
      else if (left.length > 0) {
        const removed = await this.#settled(async (run) => {
          const keys = left.filter(isLeft).map(({ key }) => key);
          await run("DELETE FROM tenant_derived WHERE tenant = $1 AND key = ANY ($2)", [this.#tenant, keys]);
          return await removeResultsWhole(run, keys);
        });
        for (const { bytes } of removed) this.#sums.add("freed", "compiled", bytes);
      }
      if (results.length < ROWS) return;
      from = results.at(-1)!.key;
    }
  }
}

/** The content that one tenant refers to. */
class Reach {
  readonly #tenant: string;
  readonly #reached = new Set<Cid>();
  /** Contents that were read and name no other. */
  #leaves: number[] = [];

  constructor(tenant: string) {
    this.#tenant = tenant;
  }

  has(cid: Cid): boolean {
    return this.#reached.has(cid);
  }

  markIn(run: RunSql, texts: readonly Uint8Array[]): Promise<void> {
    return this.mark(
      run,
      texts.flatMap((text) => [...cidsIn(text)]),
    );
  }

  /** Texts that lead to nothing of the tenant are not remembered. */
  async mark(run: RunSql, roots: readonly Cid[]): Promise<void> {
    for (let wanted = new Set(roots); wanted.size > 0;) {
      const named = new Set<Cid>();
      for (const some of partsOf(
        [...wanted].filter((cid) => !this.#reached.has(cid)),
        CIDS,
      )) {
        const found = await this.#found(run, some);
        for (const { cid } of found) this.#reached.add(cid);
        for (const few of partsOf(
          found.filter(({ isLeaf }) => !isLeaf),
          ROWS,
          BYTES,
        ))
          await this.#read(run, few, named);
      }
      wanted = named;
    }
  }

  #found(run: RunSql, cids: readonly Cid[]): Promise<Found[]> {
    return run<Found>(
      `SELECT id, cid, is_leaf AS "isLeaf", octet_length(bytes) AS bytes FROM content WHERE cid = ANY ($2) AND (
         EXISTS (SELECT 1 FROM tenant_content WHERE tenant = $1 AND content_id = id)
         OR EXISTS (SELECT 1 FROM left_content WHERE tenant = $1 AND content_id = id))`,
      [this.#tenant, cids],
    );
  }

  async #read(run: RunSql, found: readonly Found[], named: Set<Cid>): Promise<void> {
    const contents = await run<{ id: number; bytes: Buffer }>("SELECT id, bytes FROM content WHERE id = ANY ($1)", [
      idsOf(found),
    ]);
    for (const { id, bytes } of contents) {
      const cids = cidsIn(bytes);
      if (cids.size === 0) this.#leaves.push(id);
      for (const cid of cids) named.add(cid);
    }
  }

  /** Nobody has to read them again to find out. */
  async keepLeaves(database: PostgresDatabase): Promise<void> {
    for (const some of partsOf(this.#leaves, ROWS)) {
      await database.transaction(
        (run) =>
          run(
            `UPDATE content SET is_leaf = true
             WHERE id IN (SELECT id FROM content WHERE id = ANY ($1) FOR NO KEY UPDATE SKIP LOCKED)`,
            [some],
          ),
        QUICK,
      );
    }
    this.#leaves = [];
  }
}

/** Removes state that has expired and that no write has removed. */
async function removeAllExpired(database: PostgresDatabase): Promise<void> {
  const tenants = await database.run<{ tenant: string }>(
    `SELECT DISTINCT tenant FROM state JOIN state_server AS place ON place.id = server_id
     WHERE expires_at <= (SELECT berth_now()) AND NOT starts_with(tenant, '${ALIAS}')`,
  );
  for (const { tenant } of tenants) {
    const removeSome = (run: RunSql): Promise<number> => removeExpired(run, tenant);
    while ((await database.change(tenant, removeSome, QUICK)) > 0);
  }
}

/** Removes what the last calls of tenants wrote that were deleted meanwhile. */
async function removeRemains(database: PostgresDatabase): Promise<void> {
  const gone = await database.run<{ tenant: string }>(
    `WITH RECURSIVE each AS (
         (SELECT tenant FROM name_change ORDER BY tenant LIMIT 1)
         UNION ALL SELECT (SELECT change.tenant FROM name_change AS change WHERE change.tenant > each.tenant
           ORDER BY change.tenant LIMIT 1) FROM each WHERE each.tenant IS NOT NULL)
     SELECT tenant FROM each WHERE ${WAS_DELETED} AND (
       EXISTS (SELECT 1 FROM name_change WHERE name_change.tenant = each.tenant AND kind <> 'tenant') OR ${REMAINS})`,
  );
  for (const { tenant } of gone) {
    const left = newAlias();
    await database.change(
      tenant,
      async (run) => {
        const [still] = await run(`SELECT 1 FROM (SELECT $1::text AS tenant) AS each WHERE ${WAS_DELETED}`, [tenant]);
        if (still) await purge(run, tenant, left, "kind <> 'tenant'");
      },
      { ...QUICK, isLong: true },
    );
    await removeClaims(database, left);
  }
}

const WAS_DELETED = `NOT EXISTS (SELECT 1 FROM tenant WHERE tenant.name = each.tenant)
  AND EXISTS (SELECT 1 FROM name_change WHERE name_change.tenant = each.tenant AND kind = 'tenant')`;
const REMAINS = [
  "name",
  "record",
  "secret",
  "state_server",
  "retained_call_server",
  "left_content",
  "tenant_content",
  "tenant_derived",
]
  .map((table) => `EXISTS (SELECT 1 FROM ${table} WHERE ${table}.tenant = each.tenant)`)
  .join(" OR ");

/** Removes results and contents that nobody has a claim on. */
async function removeUnheldParts(database: PostgresDatabase, sums: CollectionSums): Promise<void> {
  for (let from = ""; ;) {
    const results = await database.run<{ key: string }>(
      `SELECT key FROM derived WHERE key > $1
         AND NOT EXISTS (SELECT 1 FROM tenant_derived WHERE tenant_derived.key = derived.key) ORDER BY key LIMIT ${ROWS}`,
      [from],
    );
    const keys = results.map(({ key }) => key);
    const removed = await database.transaction((run) => removeResultsWhole(run, keys), QUICK);
    for (const { bytes } of removed) sums.add("freed", "compiled", bytes);
    if (keys.length < ROWS) break;
    from = keys.at(-1)!;
  }
  for (let from = 0; ;) {
    const contents = await database.run<{ id: number; isUnheld: boolean }>(
      `SELECT id, ${UNHELD} AS "isUnheld"
       FROM (SELECT id FROM content WHERE id > $1 ORDER BY id LIMIT ${IDS}) AS content ORDER BY id`,
      [from],
    );
    for (const some of partsOf(
      contents.filter(({ isUnheld }) => isUnheld),
      ROWS,
    )) {
      const removed = await database.transaction((run) => removeUnheld(run, idsOf(some)), QUICK);
      for (const { bytes, isPackage } of removed) sums.add("freed", kindOf(isPackage), bytes);
    }
    if (contents.length < IDS) return;
    from = contents.at(-1)!.id;
  }
}

/** As `removeResults`, with what only they held. */
async function removeResultsWhole(run: RunSql, keys: readonly string[]): Promise<{ readonly bytes: number }[]> {
  const removed = await removeResults(run, keys);
  await removeUnheld(run, idsOf(removed));
  return removed;
}

function kindOf(isPackage: boolean): "packages" | "content" {
  return isPackage ? "packages" : "content";
}

function idsOf(rows: readonly { readonly id: number }[]): number[] {
  return rows.map(({ id }) => id);
}

const CONTENT = 'content.id, cid, octet_length(bytes) AS bytes, is_package AS "isPackage"';

interface Claim {
  readonly id: number;
  readonly cid: Cid;
  readonly bytes: number;
  readonly isPackage: boolean;
}

interface Noted extends Claim {
  readonly since: number;
  readonly now: number;
  readonly isClaimed: boolean;
}

interface Found {
  readonly id: number;
  readonly cid: Cid;
  readonly isLeaf: boolean;
  readonly bytes: number;
}

interface Result {
  readonly key: string;
  readonly bytes: number;
  readonly sources: readonly Cid[];
}
