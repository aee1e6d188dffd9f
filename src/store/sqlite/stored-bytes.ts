import type Database from "#better-sqlite3";
import { BoundedMap } from "../../lib/bounded-map.ts";
import type { BerthError } from "../../lib/errors.ts";
import { nextTurn } from "../../lib/event-loop.ts";
import { CHANGE_BYTES, full } from "../rules.ts";
import { dataBytes, dataKinds, type DataBytes } from "../server-data.ts";
import { storedKinds, type FullCode, type StoredUse } from "../store.ts";
import { storeNow } from "./clock.ts";
import { runSteps } from "./steps.ts";
import type { WriteAheadLog } from "./write-ahead-log.ts";

/** Contents and results, and records, that are summed at a time, in a millisecond or two. */
const AT_ONCE = 1_000;
const RECORDS_AT_ONCE = 500;

/** Refusals tell what of each kind there was, as of this long ago at most; for so many tenants. */
const TOLD_MS = 10_000;
const TOLD_MAX = 64;

interface Page<Key> {
  /** Null where there is no more. */
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
 * The bytes of content that each tenant has, and of results that it holds. They are summed once, in turns with other work
 * where that is possible, and counted from then on: at 50,000 contents summing takes 100 ms and more. Additions of other
 * processes are seen.
 */
export class StoredBytes {
  readonly #known = new Map<string, number>();
  readonly #contents: Database.Statement<[string], number | null>;
  readonly #contentsPage: Database.Statement<[string, number], Page<number> & { readonly packages: number }>;
  readonly #resultsPage: Database.Statement<[string, string], Page<string>>;
  readonly #recordsPage: Database.Statement<[string, string, string], RecordSize>;
  readonly #results: Database.Statement<[string], number | null>;
  readonly #ofServers: (tenant: string) => DataBytes;
  readonly #records: Database.Statement<[string, number], number | null>;
  readonly #secrets: Database.Statement<[string], number | null>;
  readonly #history: Database.Statement<[string], number>;
  readonly #log: Pick<WriteAheadLog, "version">;
  readonly #told = new BoundedMap<string, { readonly at: number; readonly use: Promise<StoredUse> }>(TOLD_MAX);
  /** The sums that are under way, and the tenants of which they have missed something. */
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
         WHERE tenant = ? AND held.content_id > ? ORDER BY held.content_id LIMIT ${AT_ONCE})`,
    );
    this.#resultsPage = database.prepare(
      `SELECT max(at) AS last, total(bytes) AS bytes FROM (
         SELECT held.key AS at, LENGTH(bytes) AS bytes
         FROM tenant_derived AS held JOIN derived USING (key) JOIN content ON id = content_id
         WHERE tenant = ? AND held.key > ? ORDER BY held.key LIMIT ${AT_ONCE})`,
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
    this.#ofServers = (tenant) => runSteps(database, dataBytes(tenant));
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
   * Sums in turns with other work what `of`, or `lately`, would sum at once. If anything changes meanwhile, they do it
   * nevertheless. Undefined where there is nothing to wait for.
   */
  ready(tenant: string, what: "of" | "lately"): Promise<void> | undefined {
    const isCurrent = what === "lately" || this.#log.version() === this.#seenVersion;
    if (isCurrent && this.#known.has(tenant)) return undefined;
    let summing = this.#summing.get(tenant);
    if (!summing) {
      // Whoever asks then hears of what fails.
      summing = this.#sumInTurns(tenant).catch(() => {});
      this.#summing.set(tenant, summing);
    }
    return summing;
  }

  underWay(tenant: string): Promise<void> | undefined {
    return this.#summing.get(tenant);
  }

  async #sumInTurns(tenant: string): Promise<void> {
    try {
      const version = this.#log.version();
      const use = await this.use(tenant);
      if (this.#missed.has(tenant) || this.#log.version() !== version) return;
      if (version !== this.#seenVersion) this.#known.clear();
      this.#seenVersion = version;
      this.#known.set(
        tenant,
        storedKinds.reduce((sum, kind) => (dataKinds.includes(kind as keyof DataBytes) ? sum : sum + use[kind]), 0),
      );
    } finally {
      this.#summing.delete(tenant);
      this.#missed.delete(tenant);
    }
  }

  /** Called within a change, so that nobody else adds to it meanwhile, and before that change adds anything itself. */
  of(tenant: string): number {
    return this.#others(tenant) + total(this.#ofServers(tenant));
  }

  #others(tenant: string): number {
    const version = this.#log.version();
    if (version !== this.#seenVersion) this.#known.clear();
    this.#seenVersion = version;
    const known = this.#known.get(tenant) ?? this.#summed(tenant);
    this.#known.set(tenant, known);
    return known;
  }

  /**
   * As `of`, given the data of servers, and with the other kinds as they were last summed: several processes write data
   * of servers all the time, and each would have the others sum everything again.
   */
  lately(tenant: string, ofServers: DataBytes): number {
    return (this.#known.get(tenant) ?? this.#others(tenant)) + total(ofServers);
  }

  /** Throws `code` for a change after which the tenant would store `bytes`; `toldByKind` says more of that. */
  check(bytes: number, storedBytesMax: number, code: FullCode): void {
    if (bytes > storedBytesMax) throw full(code, { bytes, storedBytesMax });
  }

  /** Adds to the error of `check` what of each kind there is, which takes too long within a change. */
  async toldByKind<T>(tenant: string, changing: Promise<T>): Promise<T> {
    try {
      return await changing;
    } catch (error) {
      const { code, data: { bytes, storedBytesMax } = {} } = error as Partial<BerthError>;
      if (typeof bytes !== "number" || typeof storedBytesMax !== "number") throw error;
      const use = await this.#lateUse(tenant).catch(() => undefined);
      throw full(code as FullCode, { bytes, storedBytesMax, ...(use && { use }) });
    }
  }

  /** A server may try to write again and again. */
  #lateUse(tenant: string): Promise<StoredUse> {
    const last = this.#told.get(tenant);
    if (last && performance.now() - last.at < TOLD_MS) return last.use;
    const use = this.use(tenant);
    this.#told.set(tenant, { at: performance.now(), use });
    return use;
  }

  /** Everything by kind, summed anew in turns with other work. */
  async use(tenant: string): Promise<StoredUse> {
    let [content, packages, compiled, records] = [0, 0, 0, 0];
    for (let from = 0; ;) {
      const page = this.#contentsPage.get(tenant, from)!;
      content += page.bytes - page.packages;
      packages += page.packages;
      if (page.last === null) break;
      from = page.last;
      await nextTurn();
    }
    for (let from = ""; ;) {
      const page = this.#resultsPage.get(tenant, from)!;
      compiled += page.bytes;
      if (page.last === null) break;
      from = page.last;
      await nextTurn();
    }
    for (let from = { kind: "", key: "" }; ;) {
      const page = this.#recordsPage.all(tenant, from.kind, from.key);
      for (const { bytes, expiresAt } of page) if (expiresAt > storeNow()) records += bytes;
      if (page.length < RECORDS_AT_ONCE) break;
      from = page.at(-1)!;
      await nextTurn();
    }
    const [secrets, history] = [this.#secrets.get(tenant) ?? 0, this.#history.get(tenant)!];
    return { packages, content, compiled, ...this.#ofServers(tenant), records, secrets, history };
  }

  /** Forgets a tenant that is gone: another of the same name has nothing. */
  forget(tenant: string): void {
    if (this.#summing.has(tenant)) this.#missed.add(tenant);
    this.#known.delete(tenant);
    this.#told.delete(tenant);
  }

  /** Counts what a finished change has added. */
  added(tenant: string, bytes: number): void {
    if (this.#summing.has(tenant)) this.#missed.add(tenant);
    const known = this.#known.get(tenant);
    if (known !== undefined) this.#known.set(tenant, known + bytes);
  }

  /** Counts what another thread of this process has changed since `version`, while nobody else here wrote. */
  changedAside(version: number, tenant: string, bytes: number): void {
    // Where others wrote as well, it is summed anew.
    if (version !== this.#seenVersion) return;
    this.#seenVersion = this.#log.version();
    this.added(tenant, bytes);
  }

  #summed(tenant: string): number {
    const kinds = [this.#contents, this.#results, this.#secrets, this.#history].map((kind) => kind.get(tenant));
    return [...kinds, this.#records.get(tenant, storeNow())].reduce<number>((sum, bytes) => sum + (bytes ?? 0), 0);
  }
}

function total(ofServers: DataBytes): number {
  return Object.values(ofServers).reduce((sum, bytes) => sum + bytes, 0);
}
