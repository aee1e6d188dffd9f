import type { Cid } from "../lib/cid.ts";
import { BerthError } from "../lib/errors.ts";
import { newAlias } from "./aliases.ts";
import { CollectionSums, partsOf } from "./collection-sums.ts";
import type { Dialect, NameChangeRow } from "./dialect.ts";
import {
  idsOf,
  keysOf,
  purge,
  removeClaims,
  removeResults,
  removeUnheld,
  UNHELD,
  type SizedContent,
} from "./left-claims.ts";
import { ContentReach } from "./reach.ts";
import { CHANGE_BYTES } from "./rules.ts";
import { rows, type Steps } from "./steps.ts";
import type { CollectionOrder, CollectionResult, TenantCollection } from "./store.ts";
import { expiredOwners, forValues, removeEmptyOwners, removeExpired } from "./values.ts";

/** Rows that are read or written together. */
const ROWS = 200;
/** Changes of names that are followed while others wait. */
const FEW = 20;
/** Expired values that are removed together. */
const FEW_VALUES = 100;
/** Contents that are searched together for any that no tenant has a claim on. */
const IDS = 5_000;

/** A store as a collection works on it: in short steps, next to everything else that reads and writes there. */
export interface CollectedStore {
  readonly dialect: Dialect;

  /** Reads, with others in between. */
  read<T>(steps: Steps<T>): Promise<T>;

  /**
   * One short transaction, which need not survive a power cut. With `claims`, no one else changes that tenant meanwhile,
   * and `work` counts there by how much it changes what the tenant claims. One that is `isLong` may take longer.
   */
  write<T>(work: () => Steps<T>, claims?: ClaimedBytes, isLong?: boolean): Promise<T>;

  /** Removes what processes left that ended while they imported or deleted a tenant. */
  removeLeftovers(): Promise<void>;

  /** The free bytes within the files of the store; 0 where only the database knows them. */
  reusableBytes(): number;
}

/** By how much a transaction changed what a tenant claims. */
export interface ClaimedBytes {
  readonly tenant: string;
  bytes: number;
}

/**
 * One collection. For each tenant it finds all that names mean, or meant within their time, with everything that such
 * content names, as far as the tenant has it. A CID counts wherever it occurs in a content: a text that only looks like a
 * reference keeps content that could be removed, and nothing that is needed is ever removed.
 *
 * The rest is noted with the time, then loses its claim, then is removed; a change that refers to it takes it back in its
 * own transaction. Each transaction here is short, and has followed all that the tenant changed until then.
 */
export async function collection(store: CollectedStore, order: CollectionOrder): Promise<CollectionResult> {
  const sums = new CollectionSums();
  for (const each of order.tenants) {
    try {
      await new TenantCollector(store, sums, each, order).collect();
    } catch (error) {
      // The next collection has the new one's.
      if (error !== replaced) throw error;
    }
  }
  if (!order.isTrial) {
    await store.removeLeftovers();
    await removeExpiredValues(store);
    await removeRemains(store);
    await removeUnheldParts(store, sums);
  }
  return sums.collected(store.reusableBytes());
}

const replaced = new BerthError("store_failed", "the tenant was changed or replaced while it was collected");

class TenantCollector {
  readonly #store: CollectedStore;
  readonly #dialect: Dialect;
  readonly #sums: CollectionSums;
  readonly #tenant: string;
  readonly #historyMs: number;
  readonly #graceMs: number;
  readonly #isTrial: boolean;
  readonly #reach: ContentReach;
  readonly #claims: ClaimedBytes;
  /** The number of the last change whose meaning is marked. */
  #known = 0;

  constructor(
    store: CollectedStore,
    sums: CollectionSums,
    { tenant, historyMs }: TenantCollection,
    { graceMs, isTrial = false }: CollectionOrder,
  ) {
    this.#store = store;
    this.#dialect = store.dialect;
    this.#sums = sums;
    this.#tenant = tenant;
    this.#historyMs = historyMs;
    this.#graceMs = graceMs;
    this.#isTrial = isTrial;
    this.#reach = new ContentReach(store.dialect, tenant);
    this.#claims = { tenant, bytes: 0 };
  }

  /** Throws `replaced`. */
  async collect(): Promise<void> {
    const lapsed = await this.#store.read(this.#markNames());
    await this.#store.read(this.#markRecords());
    await this.#store.read(forValues(this.#tenant, (values) => this.#reach.markIn(values)));
    // A release that something names, such as a withdrawal, an entry, or a task, stays addressable.
    const isPinned = ({ kind, cid }: NameChangeRow): boolean =>
      kind === "release" && cid !== null && this.#reach.has(cid);
    await this.#removeChanges(lapsed.filter((change) => !isPinned(change)).map(({ id }) => id));
    if (!this.#isTrial) {
      for (const some of partsOf(this.#reach.takeLeaves(), ROWS))
        await this.#store.write(() => rows(this.#dialect.addLeaves, [some]));
    }
    await this.#noteClaims();
    await this.#collectNoted();
    await this.#collectResults();
  }

  /** A transaction in which everything that the tenant's names mean is marked. */
  async #settled<T>(work: () => Steps<T>): Promise<T> {
    const settle = function* (this: TenantCollector): Steps<{ result: T } | undefined> {
      // The few that came before the lock; more of them are marked without it.
      const changes = yield* this.#changes();
      if (changes.length > FEW) return undefined;
      yield* this.#follow(changes);
      this.#claims.bytes = 0;
      return { result: yield* work() };
    }.bind(this);
    for (;;) {
      await this.#store.read(this.#follow(await this.#store.read(this.#changes())));
      const done = await this.#store.write(settle, this.#claims);
      if (done) return done.result;
    }
  }

  *#changes(): Steps<NameChangeRow[]> {
    // The empty text keeps the database from scanning all that the tenant ever changed, by the index of its names.
    const found = yield* rows<NameChangeRow & { readonly latest: number }>(
      `SELECT latest, id, kind, cid FROM ${this.#dialect.changeCounter} AS counter
       LEFT JOIN name_change ON id > $1 AND tenant || '' = $2 ORDER BY id`,
      [this.#known, this.#tenant],
    );
    const changes = found.filter(({ id }) => id !== null);
    // Another database took over that did not have all changes, or all that the tenant has was replaced.
    if (found[0]!.latest < this.#known || changes.some(({ kind }) => kind === "tenant")) throw replaced;
    return changes;
  }

  *#follow(changes: readonly NameChangeRow[]): Steps<void> {
    yield* this.#reach.mark(changes.flatMap(({ cid }) => cid ?? []));
    this.#known = changes.at(-1)?.id ?? this.#known;
  }

  /**
   * Marks what names mean, and meant as long as history is kept. Returns the changes whose meanings were replaced before.
   */
  *#markNames(): Steps<NameChangeRow[]> {
    const [clock] = yield* rows<{ latest: number; now: number }>(
      `SELECT latest, berth_now() AS now FROM ${this.#dialect.changeCounter} AS counter`,
    );
    const { latest, now } = clock!;
    this.#known = latest;
    const after = this.#historyMs > 0 ? now - this.#historyMs : -Infinity;
    const lapsed: NameChangeRow[] = [];
    let last: NameChangeRow | undefined;
    for (;;) {
      const from = last ?? { kind: "", name: "", id: 0 };
      const changes = yield* rows<NameChangeRow>(
        `SELECT id, kind, name, cid, changed_at AS "changedAt" FROM name_change
         WHERE tenant = $1 AND (kind, name, id) > ($2, $3, CAST($4 AS bigint)) AND kind NOT IN ('tenant', 'token')
         ORDER BY kind, name, id LIMIT ${ROWS}`,
        [this.#tenant, from.kind, from.name, from.id],
      );
      const isOver = changes.length < ROWS;
      const page = [...(last ? [last] : []), ...changes];
      const kept: Cid[] = [];
      for (const [at, change] of page.entries()) {
        const next = page[at + 1];
        if (!next && !isOver) break;
        const isReplaced = next?.kind === change.kind && next.name === change.name;
        const isGone = isReplaced ? next.changedAt < after : change.cid === null && change.changedAt < after;
        if (isGone && !(this.#dialect.keepsLatestChange && change.id === latest)) lapsed.push(change);
        else if (change.cid !== null) kept.push(change.cid);
      }
      yield* this.#reach.mark(kept);
      if (isOver) break;
      last = changes.at(-1);
    }
    const meanings = yield* rows<{ cid: Cid }>("SELECT DISTINCT cid FROM name WHERE tenant = $1", [this.#tenant]);
    yield* this.#reach.mark(meanings.map(({ cid }) => cid));
    return lapsed;
  }

  /** Marks the content that tasks, sessions and streams name, which may have begun in a release. */
  *#markRecords(): Steps<void> {
    for (let from = { kind: "", key: "" }; ;) {
      const records = yield* rows<{ kind: string; key: string; value: string }>(
        `SELECT kind, key, value FROM record WHERE tenant = $1 AND (kind, key) > ($2, $3)
         ORDER BY kind, key LIMIT ${ROWS}`,
        [this.#tenant, from.kind, from.key],
      );
      yield* this.#reach.markIn(records.map(({ value }) => Buffer.from(value)));
      if (records.length < ROWS) return;
      from = records.at(-1)!;
    }
  }

  async #removeChanges(lapsed: readonly number[]): Promise<void> {
    this.#sums.lapsed += lapsed.length;
    if (this.#isTrial) return;
    for (const some of partsOf(lapsed, ROWS)) {
      await this.#settled(() => {
        this.#claims.bytes -= some.length * CHANGE_BYTES;
        return rows(`DELETE FROM name_change WHERE ${this.#dialect.oneOf("id", "$1")}`, [some]);
      });
    }
  }

  /** Notes what nothing refers to. */
  async #noteClaims(): Promise<void> {
    for (let from = 0; ;) {
      const claims = await this.#store.read(
        rows<Claim>(
          `SELECT ${this.#content} FROM tenant_content JOIN content ON id = content_id WHERE tenant = $1 AND content_id > $2
             AND NOT EXISTS (SELECT 1 FROM left_content AS noted WHERE noted.tenant = $1 AND noted.content_id = id)
           ORDER BY content_id LIMIT ${ROWS}`,
          [this.#tenant, from],
        ),
      );
      const left = claims.filter(({ cid }) => !this.#reach.has(cid));
      if (this.#isTrial) await this.#addLeft(this.#graceMs === 0 ? "freed" : "waiting", left);
      else if (left.length > 0) await this.#settled(() => this.#note(left));
      if (claims.length < ROWS) return;
      from = claims.at(-1)!.id;
    }
  }

  /** By their CIDs: another content may have got the id of one that was removed meanwhile. */
  #note(left: readonly Claim[]): Steps<unknown> {
    return rows(
      `INSERT INTO left_content (tenant, content_id, since)
       SELECT $1, id, berth_now() FROM content WHERE ${this.#dialect.oneOf("cid", "$2")}
         AND EXISTS (SELECT 1 FROM tenant_content WHERE tenant = $1 AND content_id = id) ON CONFLICT DO NOTHING`,
      [this.#tenant, left.map(({ cid }) => cid).filter((cid) => !this.#reach.has(cid))],
    );
  }

  /** Goes on with what was noted before. */
  async #collectNoted(): Promise<void> {
    for (let from = 0; ;) {
      const noted = await this.#store.read(this.#noted(`content_id > $2 ORDER BY content_id LIMIT ${ROWS}`, from));
      if (this.#isTrial) {
        const left = noted.filter(({ cid }) => !this.#reach.has(cid));
        const goes = (each: Noted): boolean => this.#graceMs === 0 || (!each.isClaimed && this.#isDue(each));
        await this.#addLeft("freed", left.filter(goes));
        await this.#addLeft(
          "waiting",
          left.filter((each) => !goes(each)),
        );
      } else {
        for (const some of partsOf(noted, ROWS, this.#dialect.removedBytesMax)) {
          const { removed, waiting } = await this.#settled(() => this.#goOn(idsOf(some)));
          addContents(this.#sums, removed);
          await this.#addLeft("waiting", waiting);
        }
      }
      if (noted.length < ROWS) return;
      from = noted.at(-1)!.id;
    }
  }

  #noted(which: string, value: number | readonly number[]): Steps<Noted[]> {
    return rows<Noted>(
      `SELECT ${this.#content}, since, berth_now() AS now, EXISTS (SELECT 1 FROM tenant_content AS held
         WHERE held.tenant = $1 AND held.content_id = content.id) AS "isClaimed"
       FROM left_content JOIN content ON id = content_id WHERE tenant = $1 AND ${which}`,
      [this.#tenant, value],
    );
  }

  #isDue({ since, now }: Noted): boolean {
    return since <= now - this.#graceMs;
  }

  *#goOn(ids: readonly number[]): Steps<{ removed: SizedContent[]; waiting: Noted[] }> {
    const noted = yield* this.#noted(this.#dialect.oneOf("content_id", "$2"), ids);
    const back = noted.filter(({ cid }) => this.#reach.has(cid));
    const left = noted.filter(({ cid }) => !this.#reach.has(cid));
    const hidden = left.filter((each) => each.isClaimed && this.#isDue(each));
    const gone = left.filter((each) => this.#isDue(each) && (!each.isClaimed || this.#graceMs === 0));
    const later = hidden.filter((each) => !gone.includes(each));
    yield* this.#dialect.settleNoted(this.#tenant, {
      back: idsOf(back),
      gone: idsOf(gone),
      hidden: idsOf(hidden),
      later: idsOf(later),
    });
    this.#claims.bytes += bytesOf(back.filter(({ isClaimed }) => !isClaimed)) - bytesOf(hidden);
    const removed = yield* removeUnheld(this.#dialect, idsOf(gone));
    return { removed, waiting: left.filter((each) => !gone.includes(each)) };
  }

  /** Counts contents, except those that something else holds, too. */
  async #addLeft(what: "freed" | "waiting", left: readonly Claim[]): Promise<void> {
    if (left.length === 0) return;
    const shared = await this.#store.read(
      rows<{ id: number }>(
        `SELECT id FROM content WHERE ${this.#dialect.oneOf("id", "$1")} AND (
           EXISTS (SELECT 1 FROM tenant_content WHERE content_id = id AND tenant <> $2)
           OR EXISTS (SELECT 1 FROM left_content WHERE content_id = id AND tenant <> $2)
           OR EXISTS (SELECT 1 FROM derived WHERE content_id = id))`,
        [idsOf(left), this.#tenant],
      ),
    );
    const others = new Set(idsOf(shared));
    addContents(
      this.#sums,
      left.filter(({ id }) => !others.has(id)),
      what,
    );
  }

  /** Releases results when none of the contents that they were made of is left. */
  async #collectResults(): Promise<void> {
    for (let from = ""; ;) {
      const results = await this.#store.read(
        rows<Result>(
          `SELECT key, octet_length(bytes) AS bytes,
             (SELECT string_agg(cid, ' ') FROM derived_source WHERE derived_source.key = derived.key) AS sources
           FROM tenant_derived JOIN derived USING (key) JOIN content ON id = content_id
           WHERE tenant = $1 AND key > $2 ORDER BY key LIMIT ${ROWS}`,
          [this.#tenant, from],
        ),
      );
      const isLeft = ({ sources }: Result): boolean =>
        sources !== null && !sources.split(" ").some((cid) => this.#reach.has(cid));
      const left = results.filter(isLeft);
      if (this.#isTrial) addResults(this.#sums, left);
      else if (left.length > 0) addResults(this.#sums, await this.#settled(() => this.#release(left.filter(isLeft))));
      if (results.length < ROWS) return;
      from = results.at(-1)!.key;
    }
  }

  *#release(left: readonly Result[]): Steps<{ readonly bytes: number }[]> {
    const keys = keysOf(left);
    const released = `tenant = $1 AND ${this.#dialect.oneOf("key", "$2")}`;
    yield* rows(`DELETE FROM tenant_derived WHERE ${released}`, [this.#tenant, keys]);
    this.#claims.bytes -= bytesOf(left);
    return yield* removeResultsWhole(this.#dialect, keys);
  }

  get #content(): string {
    return `content.id, cid, octet_length(bytes) AS bytes, ${this.#dialect.isPackage} AS "isPackage"`;
  }
}

/** Removes what the last calls of tenants wrote that were deleted meanwhile. */
async function removeRemains(store: CollectedStore): Promise<void> {
  const { dialect } = store;
  const gone = await store.read(
    rows<{ tenant: string }>(
      `WITH RECURSIVE each (tenant) AS (
         SELECT min(tenant) FROM name_change
         UNION ALL SELECT (SELECT min(change.tenant) FROM name_change AS change WHERE change.tenant > each.tenant)
           FROM each WHERE each.tenant IS NOT NULL)
       SELECT tenant FROM each WHERE ${WAS_DELETED} AND (
         EXISTS (SELECT 1 FROM name_change WHERE name_change.tenant = each.tenant AND kind <> 'tenant') OR ${REMAINS})`,
    ),
  );
  for (const { tenant } of gone) {
    const left = newAlias();
    const remove = function* (): Steps<void> {
      const still = `SELECT 1 FROM (SELECT CAST($1 AS text) AS tenant) AS each WHERE ${WAS_DELETED}`;
      if ((yield* rows(still, [tenant])).length === 0) return;
      yield* purge(dialect, tenant, left, "kind <> 'tenant'");
      if (dialect.mustErase !== undefined) yield* rows(dialect.mustErase);
    };
    await store.write(remove, { tenant, bytes: 0 }, true);
    await removeClaims((work) => store.write(work), dialect, left);
  }
}

const WAS_DELETED = `NOT EXISTS (SELECT 1 FROM tenant WHERE tenant.name = each.tenant)
  AND EXISTS (SELECT 1 FROM name_change WHERE name_change.tenant = each.tenant AND kind = 'tenant')`;
const REMAINS = ["name", "record", "secret", "server_data", "left_content", "tenant_content", "tenant_derived"]
  .map((table) => `EXISTS (SELECT 1 FROM ${table} WHERE ${table}.tenant = each.tenant)`)
  .join(" OR ");

/** Removes the expired values that no write has removed, and the rows of servers that have no data. */
async function removeExpiredValues(store: CollectedStore): Promise<void> {
  for (const { tenant, id } of await store.read(expiredOwners())) {
    const remove = (): Steps<number> => removeExpired(store.dialect, id, FEW_VALUES);
    while ((await store.write(remove, { tenant, bytes: 0 })) > 0);
  }
  await store.write(removeEmptyOwners);
}

/** Removes results and contents that no tenant has a claim on. */
async function removeUnheldParts(store: CollectedStore, sums: CollectionSums): Promise<void> {
  const { dialect } = store;
  for (let from = ""; ;) {
    const results = await store.read(
      rows<{ key: string }>(
        `SELECT key FROM derived WHERE key > $1
           AND NOT EXISTS (SELECT 1 FROM tenant_derived WHERE tenant_derived.key = derived.key) ORDER BY key LIMIT ${ROWS}`,
        [from],
      ),
    );
    const keys = keysOf(results);
    if (keys.length > 0) addResults(sums, await store.write(() => removeResultsWhole(dialect, keys)));
    if (keys.length < ROWS) break;
    from = keys.at(-1)!;
  }
  for (let from = 0; ;) {
    const contents = await store.read(
      rows<{ id: number; bytes: number | null }>(
        `SELECT id, CASE WHEN ${UNHELD} THEN octet_length(bytes) END AS bytes
         FROM (SELECT id, bytes FROM content WHERE id > $1 ORDER BY id LIMIT ${IDS}) AS content ORDER BY id`,
        [from],
      ),
    );
    const unheld = contents.filter(({ bytes }) => bytes !== null);
    for (const some of partsOf(unheld, ROWS, dialect.removedBytesMax))
      addContents(sums, await store.write(() => removeUnheld(dialect, idsOf(some))));
    if (contents.length < IDS) return;
    from = contents.at(-1)!.id;
  }
}

/** As `removeResults`, with what only they held. */
function* removeResultsWhole(dialect: Dialect, keys: readonly string[]): Steps<{ readonly bytes: number }[]> {
  const removed = yield* removeResults(dialect, keys);
  yield* removeUnheld(dialect, idsOf(removed));
  return removed;
}

function addContents(
  sums: CollectionSums,
  contents: readonly SizedContent[],
  what: "freed" | "waiting" = "freed",
): void {
  for (const { bytes, isPackage } of contents) sums.add(what, isPackage ? "packages" : "content", bytes);
}

function addResults(sums: CollectionSums, results: readonly { readonly bytes: number }[]): void {
  for (const { bytes } of results) sums.add("freed", "compiled", bytes);
}

function bytesOf(found: readonly { readonly bytes: number }[]): number {
  return found.reduce((sum, { bytes }) => sum + bytes, 0);
}

interface Claim extends SizedContent {
  readonly cid: Cid;
}

interface Noted extends Claim {
  readonly since: number;
  readonly now: number;
  readonly isClaimed: boolean | number;
}

interface Result {
  readonly key: string;
  readonly bytes: number;
  /** CIDs; null where they are not known. */
  readonly sources: string | null;
}
