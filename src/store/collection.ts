import type { Cid } from "../lib/cid.ts";
import { BerthError } from "../lib/errors.ts";
import { newAlias } from "./aliases.ts";
import { CollectionSums, toBatches } from "./collection-sums.ts";
import type { Dialect, NameChangeRow } from "./dialect.ts";
import {
  toIds,
  toKeys,
  purge,
  removeClaims,
  removeResults,
  removeUnheld,
  UNHELD,
  type SizedContent,
} from "./leftover-claims.ts";
import { ContentReach } from "./reach.ts";
import { CHANGE_BYTES } from "./rules.ts";
import { rows, type Steps } from "./steps.ts";
import type { CollectionOptions, CollectionResult, TenantCollection } from "./store.ts";
import { expiredOwners, forValues, removeEmptyOwners, removeExpired } from "./values.ts";

/** Rows that are read or written at once. */
const ROWS = 200;
/** Changes of names that are processed while a lock is held. */
const CHANGES_IN_LOCK = 20;
/** Expired values that are removed at once. */
const EXPIRED_VALUES = 100;
/** Contents that are scanned at once for missing claims. */
const SCANNED_IDS = 5_000;

/** A store from the perspective of a collection: it works in short steps, concurrently with everything else. */
export interface CollectedStore {
  readonly dialect: Dialect;

  /** Reads without excluding others. */
  read<T>(steps: Steps<T>): Promise<T>;

  /**
   * A short transaction that need not survive a power cut. With `claims`, it locks that tenant, and `work` adds the
   * change in the size of the tenant's claims. An `isLong` one may take longer.
   */
  write<T>(work: () => Steps<T>, claims?: ClaimedBytes, isLong?: boolean): Promise<T>;

  /** Removes what terminated processes left behind while they imported or deleted a tenant. */
  removeLeftovers(): Promise<void>;

  /** The free space within the files of the store; 0 if only the database knows it. */
  reusableBytes(): number;
}

/** By how many bytes a transaction changed the claims of a tenant. */
export interface ClaimedBytes {
  readonly tenant: string;
  bytes: number;
}

/**
 * One collection. For each tenant it finds everything that names mean, or meant within the retained history, and
 * everything that this content refers to, among the content that the tenant has. A CID counts wherever it occurs in
 * content: a coincidental match may retain unneeded content, but nothing needed is ever removed.
 *
 * The rest is first noted with the time, then loses its claim, then is removed; a change that refers to it recovers it
 * in its own transaction. Each transaction is short, and first processes what the tenant has changed until then.
 */
export async function collection(store: CollectedStore, order: CollectionOptions): Promise<CollectionResult> {
  const sums = new CollectionSums();
  for (const each of order.tenants) {
    try {
      await new TenantCollector(store, sums, each, order).collect();
    } catch (error) {
      // The next collection processes the replaced tenant.
      if (error !== outdated) throw error;
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

const outdated = new BerthError("store_failed", "the tenant was changed or replaced while it was collected");

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
  #lastMarkedChange = 0;

  constructor(
    store: CollectedStore,
    sums: CollectionSums,
    { tenant, historyMs }: TenantCollection,
    { graceMs, isTrial = false }: CollectionOptions,
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

  /** Throws `outdated`. */
  async collect(): Promise<void> {
    const lapsedChanges = await this.#store.read(this.#markNames());
    await this.#store.read(this.#markRecords());
    await this.#store.read(forValues(this.#tenant, (values) => this.#reach.markIn(values)));
    // A release that is referenced, for example by a withdrawal, an entry, or a task, stays addressable.
    const isPinned = ({ kind, cid }: NameChangeRow): boolean =>
      kind === "release" && cid !== null && this.#reach.has(cid);
    await this.#removeChanges(lapsedChanges.filter((change) => !isPinned(change)).map(({ id }) => id));
    if (!this.#isTrial) {
      for (const batch of toBatches(this.#reach.takeLeaves(), ROWS))
        await this.#store.write(() => rows(this.#dialect.addLeaves, [batch]));
    }
    await this.#noteClaims();
    await this.#collectNoted();
    await this.#collectResults();
  }

  /** A transaction that begins once all current meanings of the tenant's names are marked. */
  async #transact<T>(work: () => Steps<T>): Promise<T> {
    const prepare = function* (this: TenantCollector): Steps<{ result: T } | undefined> {
      // Process the few changes from before the lock. If there are many, they are processed without the lock.
      const changes = yield* this.#changes();
      if (changes.length > CHANGES_IN_LOCK) return undefined;
      yield* this.#markChanges(changes);
      this.#claims.bytes = 0;
      return { result: yield* work() };
    }.bind(this);
    for (;;) {
      await this.#store.read(this.#markChanges(await this.#store.read(this.#changes())));
      const outcome = await this.#store.write(prepare, this.#claims);
      if (outcome) return outcome.result;
    }
  }

  *#changes(): Steps<NameChangeRow[]> {
    // The concatenation makes the database use the primary key, rather than scan all changes of the tenant by the index
    // of names.
    const changesAndCounter = yield* rows<NameChangeRow & { readonly latest: number }>(
      `SELECT latest, id, kind, cid FROM ${this.#dialect.changeCounter} AS counter
       LEFT JOIN name_change ON id > $1 AND tenant || '' = $2 ORDER BY id`,
      [this.#lastMarkedChange, this.#tenant],
    );
    const changes = changesAndCounter.filter(({ id }) => id !== null);
    // Either a database without all changes took over, or the tenant's data was replaced.
    if (changesAndCounter[0]!.latest < this.#lastMarkedChange || changes.some(({ kind }) => kind === "tenant"))
      throw outdated;
    return changes;
  }

  *#markChanges(changes: readonly NameChangeRow[]): Steps<void> {
    yield* this.#reach.mark(changes.flatMap(({ cid }) => cid ?? []));
    this.#lastMarkedChange = changes.at(-1)?.id ?? this.#lastMarkedChange;
  }

  /** Marks the meanings of names within the retained history. Returns the changes replaced before that. */
  *#markNames(): Steps<NameChangeRow[]> {
    const [clock] = yield* rows<{ latest: number; now: number }>(
      `SELECT latest, berth_now() AS now FROM ${this.#dialect.changeCounter} AS counter`,
    );
    const { latest, now } = clock!;
    this.#lastMarkedChange = latest;
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
      const isLastPage = changes.length < ROWS;
      const window = [...(last ? [last] : []), ...changes];
      const retained: Cid[] = [];
      for (const [at, change] of window.entries()) {
        const next = window[at + 1];
        if (!next && !isLastPage) break;
        const isReplaced = next?.kind === change.kind && next.name === change.name;
        const hasLapsed = isReplaced ? next.changedAt < after : change.cid === null && change.changedAt < after;
        if (hasLapsed && !(this.#dialect.keepsLatestChange && change.id === latest)) lapsed.push(change);
        else if (change.cid !== null) retained.push(change.cid);
      }
      yield* this.#reach.mark(retained);
      if (isLastPage) break;
      last = changes.at(-1);
    }
    const meanings = yield* rows<{ cid: Cid }>("SELECT DISTINCT cid FROM name WHERE tenant = $1", [this.#tenant]);
    yield* this.#reach.mark(meanings.map(({ cid }) => cid));
    return lapsed;
  }

  /** Marks the content that tasks, sessions and streams refer to, such as the release in which they began. */
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
    for (const batch of toBatches(lapsed, ROWS)) {
      await this.#transact(() => {
        this.#claims.bytes -= batch.length * CHANGE_BYTES;
        return rows(`DELETE FROM name_change WHERE ${this.#dialect.oneOf("id", "$1")}`, [batch]);
      });
    }
  }

  /** Notes unreferenced claims. */
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
      const unreferenced = claims.filter(({ cid }) => !this.#reach.has(cid));
      if (this.#isTrial) await this.#count(this.#graceMs === 0 ? "freed" : "waiting", unreferenced);
      else if (unreferenced.length > 0) await this.#transact(() => this.#note(unreferenced));
      if (claims.length < ROWS) return;
      from = claims.at(-1)!.id;
    }
  }

  /** By CID: the id of a content that was removed meanwhile may have been reused. */
  #note(unreferenced: readonly Claim[]): Steps<unknown> {
    return rows(
      `INSERT INTO left_content (tenant, content_id, since)
       SELECT $1, id, berth_now() FROM content WHERE ${this.#dialect.oneOf("cid", "$2")}
         AND EXISTS (SELECT 1 FROM tenant_content WHERE tenant = $1 AND content_id = id) ON CONFLICT DO NOTHING`,
      [this.#tenant, unreferenced.map(({ cid }) => cid).filter((cid) => !this.#reach.has(cid))],
    );
  }

  /** Advances what was noted before. */
  async #collectNoted(): Promise<void> {
    for (let from = 0; ;) {
      const noted = await this.#store.read(this.#noted(`content_id > $2 ORDER BY content_id LIMIT ${ROWS}`, from));
      if (this.#isTrial) {
        const unreferenced = noted.filter(({ cid }) => !this.#reach.has(cid));
        const isRemoved = (each: NotedClaim): boolean => this.#graceMs === 0 || (!each.isClaimed && this.#isDue(each));
        await this.#count("freed", unreferenced.filter(isRemoved));
        await this.#count(
          "waiting",
          unreferenced.filter((each) => !isRemoved(each)),
        );
      } else {
        for (const batch of toBatches(noted, ROWS, this.#dialect.removedBytesMax)) {
          const { removed, waiting } = await this.#transact(() => this.#advance(toIds(batch)));
          addContents(this.#sums, removed);
          await this.#count("waiting", waiting);
        }
      }
      if (noted.length < ROWS) return;
      from = noted.at(-1)!.id;
    }
  }

  #noted(condition: string, value: number | readonly number[]): Steps<NotedClaim[]> {
    return rows<NotedClaim>(
      `SELECT ${this.#content}, since, berth_now() AS now, EXISTS (SELECT 1 FROM tenant_content AS held
         WHERE held.tenant = $1 AND held.content_id = content.id) AS "isClaimed"
       FROM left_content JOIN content ON id = content_id WHERE tenant = $1 AND ${condition}`,
      [this.#tenant, value],
    );
  }

  #isDue({ since, now }: NotedClaim): boolean {
    return since <= now - this.#graceMs;
  }

  *#advance(ids: readonly number[]): Steps<{ removed: SizedContent[]; waiting: NotedClaim[] }> {
    const noted = yield* this.#noted(this.#dialect.oneOf("content_id", "$2"), ids);
    const referenced = noted.filter(({ cid }) => this.#reach.has(cid));
    const unreferenced = noted.filter(({ cid }) => !this.#reach.has(cid));
    const unclaimed = unreferenced.filter((each) => each.isClaimed && this.#isDue(each));
    const removable = unreferenced.filter((each) => this.#isDue(each) && (!each.isClaimed || this.#graceMs === 0));
    const restarted = unclaimed.filter((each) => !removable.includes(each));
    yield* this.#dialect.settleNoted(this.#tenant, {
      reclaimed: toIds(referenced),
      removed: toIds(removable),
      unclaimed: toIds(unclaimed),
      restarted: toIds(restarted),
    });
    this.#claims.bytes += sumBytes(referenced.filter(({ isClaimed }) => !isClaimed)) - sumBytes(unclaimed);
    const removed = yield* removeUnheld(this.#dialect, toIds(removable));
    return { removed, waiting: unreferenced.filter((each) => !removable.includes(each)) };
  }

  /** Counts contents, except those that something else claims as well. */
  async #count(category: "freed" | "waiting", claims: readonly Claim[]): Promise<void> {
    if (claims.length === 0) return;
    const shared = await this.#store.read(
      rows<{ id: number }>(
        `SELECT id FROM content WHERE ${this.#dialect.oneOf("id", "$1")} AND (
           EXISTS (SELECT 1 FROM tenant_content WHERE content_id = id AND tenant <> $2)
           OR EXISTS (SELECT 1 FROM left_content WHERE content_id = id AND tenant <> $2)
           OR EXISTS (SELECT 1 FROM derived WHERE content_id = id))`,
        [toIds(claims), this.#tenant],
      ),
    );
    const sharedIds = new Set(toIds(shared));
    addContents(
      this.#sums,
      claims.filter(({ id }) => !sharedIds.has(id)),
      category,
    );
  }

  /** Releases results if none of the contents from which they were derived is left. */
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
      const isUnreferenced = ({ sources }: Result): boolean =>
        sources !== null && !sources.split(" ").some((cid) => this.#reach.has(cid));
      const underivable = results.filter(isUnreferenced);
      if (this.#isTrial) addResults(this.#sums, underivable);
      else if (underivable.length > 0)
        addResults(this.#sums, await this.#transact(() => this.#release(underivable.filter(isUnreferenced))));
      if (results.length < ROWS) return;
      from = results.at(-1)!.key;
    }
  }

  *#release(underivable: readonly Result[]): Steps<{ readonly bytes: number }[]> {
    const keys = toKeys(underivable);
    const released = `tenant = $1 AND ${this.#dialect.oneOf("key", "$2")}`;
    yield* rows(`DELETE FROM tenant_derived WHERE ${released}`, [this.#tenant, keys]);
    this.#claims.bytes -= sumBytes(underivable);
    return yield* removeResultsWhole(this.#dialect, keys);
  }

  get #content(): string {
    return `content.id, cid, octet_length(bytes) AS bytes, ${this.#dialect.isPackage} AS "isPackage"`;
  }
}

/** Removes what the last calls of deleted tenants wrote. */
async function removeRemains(store: CollectedStore): Promise<void> {
  const { dialect } = store;
  const deletedTenants = await store.read(
    rows<{ tenant: string }>(
      `WITH RECURSIVE each (tenant) AS (
         SELECT min(tenant) FROM name_change
         UNION ALL SELECT (SELECT min(change.tenant) FROM name_change AS change WHERE change.tenant > each.tenant)
           FROM each WHERE each.tenant IS NOT NULL)
       SELECT tenant FROM each WHERE ${IS_DELETED} AND (
         EXISTS (SELECT 1 FROM name_change WHERE name_change.tenant = each.tenant AND kind <> 'tenant') OR ${REMAINS})`,
    ),
  );
  for (const { tenant } of deletedTenants) {
    const alias = newAlias();
    const remove = function* (): Steps<void> {
      const still = `SELECT 1 FROM (SELECT CAST($1 AS text) AS tenant) AS each WHERE ${IS_DELETED}`;
      if ((yield* rows(still, [tenant])).length === 0) return;
      yield* purge(dialect, tenant, alias, "kind <> 'tenant'");
      if (dialect.requestErasure !== undefined) yield* rows(dialect.requestErasure);
    };
    await store.write(remove, { tenant, bytes: 0 }, true);
    await removeClaims((work) => store.write(work), dialect, alias);
  }
}

const IS_DELETED = `NOT EXISTS (SELECT 1 FROM tenant WHERE tenant.name = each.tenant)
  AND EXISTS (SELECT 1 FROM name_change WHERE name_change.tenant = each.tenant AND kind = 'tenant')`;
const REMAINS = ["name", "record", "secret", "server_data", "left_content", "tenant_content", "tenant_derived"]
  .map((table) => `EXISTS (SELECT 1 FROM ${table} WHERE ${table}.tenant = each.tenant)`)
  .join(" OR ");

/** Removes expired values that no write has removed, and the rows of servers without data. */
async function removeExpiredValues(store: CollectedStore): Promise<void> {
  for (const { tenant, id } of await store.read(expiredOwners())) {
    const remove = (): Steps<number> => removeExpired(store.dialect, id, EXPIRED_VALUES);
    while ((await store.write(remove, { tenant, bytes: 0 })) > 0);
  }
  await store.write(removeEmptyOwners);
}

/** Removes results and contents without claims. */
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
    const keys = toKeys(results);
    if (keys.length > 0) addResults(sums, await store.write(() => removeResultsWhole(dialect, keys)));
    if (keys.length < ROWS) break;
    from = keys.at(-1)!;
  }
  for (let from = 0; ;) {
    const contents = await store.read(
      rows<{ id: number; bytes: number | null }>(
        `SELECT id, CASE WHEN ${UNHELD} THEN octet_length(bytes) END AS bytes
         FROM (SELECT id, bytes FROM content WHERE id > $1 ORDER BY id LIMIT ${SCANNED_IDS}) AS content ORDER BY id`,
        [from],
      ),
    );
    const unheld = contents.filter(({ bytes }) => bytes !== null);
    for (const batch of toBatches(unheld, ROWS, dialect.removedBytesMax))
      addContents(sums, await store.write(() => removeUnheld(dialect, toIds(batch))));
    if (contents.length < SCANNED_IDS) return;
    from = contents.at(-1)!.id;
  }
}

/** The same as `removeResults`, including content that only they claimed. */
function* removeResultsWhole(dialect: Dialect, keys: readonly string[]): Steps<{ readonly bytes: number }[]> {
  const removed = yield* removeResults(dialect, keys);
  yield* removeUnheld(dialect, toIds(removed));
  return removed;
}

function addContents(
  sums: CollectionSums,
  contents: readonly SizedContent[],
  category: "freed" | "waiting" = "freed",
): void {
  for (const { bytes, isPackage } of contents) sums.add(category, isPackage ? "packages" : "content", bytes);
}

function addResults(sums: CollectionSums, results: readonly { readonly bytes: number }[]): void {
  for (const { bytes } of results) sums.add("freed", "compiled", bytes);
}

function sumBytes(items: readonly { readonly bytes: number }[]): number {
  return items.reduce((sum, { bytes }) => sum + bytes, 0);
}

interface Claim extends SizedContent {
  readonly cid: Cid;
}

interface NotedClaim extends Claim {
  readonly since: number;
  readonly now: number;
  readonly isClaimed: boolean | number;
}

interface Result {
  readonly key: string;
  readonly bytes: number;
  /** CIDs separated by spaces; null if unknown. */
  readonly sources: string | null;
}
