import type Database from "#better-sqlite3";
import { BoundedMap } from "../../lib/bounded-map.ts";
import type { BerthError } from "../../lib/errors.ts";
import { yieldToCalls } from "../../lib/event-loop.ts";
import { CHANGE_BYTES, storageFull } from "../rules.ts";
import { dataBytes, dataKinds, type DataBytes } from "../server-data.ts";
import { storedKinds, type StorageFullCode, type StorageUsage } from "../store.ts";
import { storeNow } from "./clock.ts";
import { runSteps } from "./steps.ts";
import type { WriteAheadLog } from "./write-ahead-log.ts";

/** The number of contents, results or records to sum up at once, which takes a millisecond or two. */
const PAGE_ROWS = 1_000;
const RECORDS_AT_ONCE = 500;

/** How long the sums in errors are cached, and for how many tenants. */
const CACHE_MS = 10_000;
const CACHE_MAX = 64;

interface Page<Key> {
  /** Null if there are no more. */
  readonly last: Key | null;
  readonly bytes: number;
}

interface RecordSize {
  readonly kind: string;
  readonly key: string;
  readonly bytes: number;
  readonly expiresAt: number;
}

/**
 * The bytes of content and results that each tenant claims. They are computed once, if possible in short steps, and
 * then counted incrementally: for 50,000 contents, computing takes 100 ms or more. Additions of other processes are
 * detected.
 */
export class StoredBytes {
  readonly #sums = new Map<string, number>();
  readonly #contents: Database.Statement<[string], number | null>;
  readonly #contentsPage: Database.Statement<[string, number], Page<number> & { readonly packages: number }>;
  readonly #resultsPage: Database.Statement<[string, string], Page<string>>;
  readonly #recordsPage: Database.Statement<[string, string, string], RecordSize>;
  readonly #results: Database.Statement<[string], number | null>;
  readonly #serverData: (tenant: string) => DataBytes;
  readonly #records: Database.Statement<[string, number], number | null>;
  readonly #secrets: Database.Statement<[string], number | null>;
  readonly #history: Database.Statement<[string], number>;
  readonly #log: Pick<WriteAheadLog, "version">;
  readonly #usageCache = new BoundedMap<string, { readonly at: number; readonly use: Promise<StorageUsage> }>(
    CACHE_MAX,
  );
  /** Running computations, and the tenants whose computations have missed a change. */
  readonly #summing = new Map<string, Promise<void>>();
  readonly #missed = new Set<string>();
  #seenVersion: number | undefined;

  constructor(database: Database.Database, log: Pick<WriteAheadLog, "version">) {
    this.#log = log;
    // SQLite knows the length of a blob without reading it.
    this.#contents = database
      .prepare<[string], number | null>(
        "SELECT SUM(LENGTH(bytes)) FROM tenant_content JOIN content ON id = content_id WHERE tenant = ?",
      )
      .pluck();
    const isPackage =
      "EXISTS (SELECT 1 FROM content_leaf WHERE content_leaf.content_id = held.content_id AND is_package = 1)";
    this.#contentsPage = database.prepare(
      `SELECT max(at) AS last, total(bytes) AS bytes, total(packed) AS packages FROM (
         SELECT held.content_id AS at, LENGTH(bytes) AS bytes, iif(${isPackage}, LENGTH(bytes), 0) AS packed
         FROM tenant_content AS held JOIN content ON id = held.content_id
         WHERE tenant = ? AND held.content_id > ? ORDER BY held.content_id LIMIT ${PAGE_ROWS})`,
    );
    this.#resultsPage = database.prepare(
      `SELECT max(at) AS last, total(bytes) AS bytes FROM (
         SELECT held.key AS at, LENGTH(bytes) AS bytes
         FROM tenant_derived AS held JOIN derived USING (key) JOIN content ON id = content_id
         WHERE tenant = ? AND held.key > ? ORDER BY held.key LIMIT ${PAGE_ROWS})`,
    );
    this.#recordsPage = database.prepare(
      `SELECT kind, key, octet_length(value) AS bytes, expires_at AS expiresAt FROM record
       WHERE tenant = ? AND (kind, key) > (?, ?) ORDER BY kind, key LIMIT ${RECORDS_AT_ONCE}`,
    );
    this.#results = database
      .prepare<[string], number | null>(
        `SELECT SUM(LENGTH(bytes)) FROM tenant_derived JOIN derived USING (key) JOIN content ON id = content_id
         WHERE tenant = ?`,
      )
      .pluck();
    this.#serverData = (tenant) => runSteps(database, dataBytes(tenant));
    this.#records = database
      .prepare<[string, number], number | null>(
        "SELECT SUM(octet_length(value)) FROM record WHERE tenant = ? AND expires_at > ?",
      )
      .pluck();
    this.#secrets = database
      .prepare<[string], number | null>("SELECT SUM(LENGTH(sealed)) FROM secret WHERE tenant = ?")
      .pluck();
    this.#history = database
      .prepare<[string], number>(`SELECT count(*) * ${CHANGE_BYTES} FROM name_change WHERE tenant = ?`)
      .pluck();
  }

  /**
   * Computes in short steps what `current` or `recent` would compute at once. If anything changes meanwhile, they still do
   * that. Undefined if there is nothing to wait for.
   */
  ready(tenant: string, kind: "current" | "recent"): Promise<void> | undefined {
    const isCurrent = kind === "recent" || this.#log.version() === this.#seenVersion;
    if (isCurrent && this.#sums.has(tenant)) return undefined;
    let summing = this.#summing.get(tenant);
    if (!summing) {
      // A failure is reported by the later synchronous computation.
      summing = this.#sumInSteps(tenant).catch(() => {});
      this.#summing.set(tenant, summing);
    }
    return summing;
  }

  pendingSum(tenant: string): Promise<void> | undefined {
    return this.#summing.get(tenant);
  }

  async #sumInSteps(tenant: string): Promise<void> {
    try {
      const version = this.#log.version();
      const use = await this.use(tenant);
      if (this.#missed.has(tenant) || this.#log.version() !== version) return;
      if (version !== this.#seenVersion) this.#sums.clear();
      this.#seenVersion = version;
      this.#sums.set(
        tenant,
        storedKinds.reduce((sum, kind) => (dataKinds.includes(kind as keyof DataBytes) ? sum : sum + use[kind]), 0),
      );
    } finally {
      this.#summing.delete(tenant);
      this.#missed.delete(tenant);
    }
  }

  /**
   * Call it within a change, so that no one else adds to it meanwhile, and before the change itself adds anything.
   */
  current(tenant: string): number {
    return this.#sumOthers(tenant) + total(this.#serverData(tenant));
  }

  #sumOthers(tenant: string): number {
    const version = this.#log.version();
    if (version !== this.#seenVersion) this.#sums.clear();
    this.#seenVersion = version;
    const sum = this.#sums.get(tenant) ?? this.#sumAll(tenant);
    this.#sums.set(tenant, sum);
    return sum;
  }

  /**
   * The same given the current sizes of server data, but with the last known sums of other kinds: several processes
   * write server data all the time, and would make each other compute everything again.
   */
  recent(tenant: string, serverData: DataBytes): number {
    return (this.#sums.get(tenant) ?? this.#sumOthers(tenant)) + total(serverData);
  }

  /** Throws `code` for a change after which the tenant would store `bytes`. `withUsage` adds details to the error. */
  check(bytes: number, storedBytesMax: number, code: StorageFullCode): void {
    if (bytes > storedBytesMax) throw storageFull(code, { bytes, storedBytesMax });
  }

  /** Adds the sums by kind to the error of `check`, as computing them takes too long within a change. */
  async withUsage<T>(tenant: string, change: Promise<T>): Promise<T> {
    try {
      return await change;
    } catch (error) {
      const { code, data: { bytes, storedBytesMax } = {} } = error as Partial<BerthError>;
      if (typeof bytes !== "number" || typeof storedBytesMax !== "number") throw error;
      const use = await this.#cachedUse(tenant).catch(() => undefined);
      throw storageFull(code as StorageFullCode, { bytes, storedBytesMax, ...(use && { use }) });
    }
  }

  /** Cached, as a server may retry its write again and again. */
  #cachedUse(tenant: string): Promise<StorageUsage> {
    const last = this.#usageCache.get(tenant);
    if (last && performance.now() - last.at < CACHE_MS) return last.use;
    const use = this.use(tenant);
    this.#usageCache.set(tenant, { at: performance.now(), use });
    return use;
  }

  /** Computes all kinds in short steps. */
  async use(tenant: string): Promise<StorageUsage> {
    let [content, packages, compiled, records] = [0, 0, 0, 0];
    for (let from = 0; ;) {
      const page = this.#contentsPage.get(tenant, from)!;
      content += page.bytes - page.packages;
      packages += page.packages;
      if (page.last === null) break;
      from = page.last;
      await yieldToCalls();
    }
    for (let from = ""; ;) {
      const page = this.#resultsPage.get(tenant, from)!;
      compiled += page.bytes;
      if (page.last === null) break;
      from = page.last;
      await yieldToCalls();
    }
    for (let from = { kind: "", key: "" }; ;) {
      const page = this.#recordsPage.all(tenant, from.kind, from.key);
      for (const { bytes, expiresAt } of page) if (expiresAt > storeNow()) records += bytes;
      if (page.length < RECORDS_AT_ONCE) break;
      from = page.at(-1)!;
      await yieldToCalls();
    }
    const [secrets, history] = [this.#secrets.get(tenant) ?? 0, this.#history.get(tenant)!];
    return { packages, content, compiled, ...this.#serverData(tenant), records, secrets, history };
  }

  /** Drops the sums of a deleted tenant, as a new one of the same name has nothing. */
  forget(tenant: string): void {
    if (this.#summing.has(tenant)) this.#missed.add(tenant);
    this.#sums.delete(tenant);
    this.#usageCache.delete(tenant);
  }

  /** Counts what a committed change has added. */
  added(tenant: string, bytes: number): void {
    if (this.#summing.has(tenant)) this.#missed.add(tenant);
    const sum = this.#sums.get(tenant);
    if (sum !== undefined) this.#sums.set(tenant, sum + bytes);
  }

  /** Counts what another thread of this process has changed since `version`, while this thread did not write. */
  changedByThread(version: number, tenant: string, bytes: number): void {
    // If other processes wrote as well, the sums are computed again.
    if (version !== this.#seenVersion) return;
    this.#seenVersion = this.#log.version();
    this.added(tenant, bytes);
  }

  #sumAll(tenant: string): number {
    const kinds = [this.#contents, this.#results, this.#secrets, this.#history].map((kind) => kind.get(tenant));
    return [...kinds, this.#records.get(tenant, storeNow())].reduce<number>((sum, bytes) => sum + (bytes ?? 0), 0);
  }
}

function total(serverData: DataBytes): number {
  return Object.values(serverData).reduce((sum, bytes) => sum + bytes, 0);
}
