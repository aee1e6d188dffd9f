import type Database from "#better-sqlite3";
import type { StoredUse } from "../store.ts";
import type { WriteAheadLog } from "./write-ahead-log.ts";

/**
 * The bytes of content that each tenant has, and of results that it holds. They are summed once and counted from then
 * on: summing takes longer the more there is, and calls wait meanwhile. Additions of other processes are seen.
 */
export class StoredBytes {
  readonly #known = new Map<string, number>();
  readonly #contents: Database.Statement<[string], { isPackage: number; bytes: number }>;
  readonly #results: Database.Statement<[string], number | null>;
  readonly #records: Database.Statement<[string, number], number | null>;
  readonly #secrets: Database.Statement<[string], number | null>;
  readonly #log: Pick<WriteAheadLog, "version">;
  #seenVersion: number | undefined;

  constructor(database: Database.Database, log: Pick<WriteAheadLog, "version">) {
    this.#log = log;
    // SQLite knows the length of a blob without reading it.
    this.#contents = database.prepare<[string], { isPackage: number; bytes: number }>(
      `SELECT coalesce(is_package, 0) AS isPackage, SUM(LENGTH(bytes)) AS bytes FROM tenant_content
       JOIN content ON id = tenant_content.content_id LEFT JOIN content_leaf ON content_leaf.content_id = id
       WHERE tenant = ? GROUP BY 1`,
    );
    this.#results = database
      .prepare<[string], number | null>(
        `SELECT SUM(LENGTH(bytes)) FROM tenant_derived JOIN derived USING (key) JOIN content ON id = content_id
         WHERE tenant = ?`,
      )
      .pluck();
    this.#records = database
      .prepare<[string, number], number | null>(
        "SELECT SUM(octet_length(value)) FROM record WHERE tenant = ? AND expires_at > ?",
      )
      .pluck();
    this.#secrets = database
      .prepare<[string], number | null>("SELECT SUM(LENGTH(sealed)) FROM secret WHERE tenant = ?")
      .pluck();
  }

  /** Called within a change, so that nobody else adds to it meanwhile, and before that change adds anything itself. */
  of(tenant: string): number {
    const version = this.#log.version();
    if (version !== this.#seenVersion) this.#known.clear();
    this.#seenVersion = version;
    const known = this.#known.get(tenant) ?? this.#summed(tenant);
    this.#known.set(tenant, known);
    return known;
  }

  /** Everything by kind, summed anew. */
  use(tenant: string): StoredUse {
    const contents = this.#contents.all(tenant);
    const bytesOf = (wanted: number): number => contents.find(({ isPackage }) => isPackage === wanted)?.bytes ?? 0;
    return {
      packages: bytesOf(1),
      content: bytesOf(0),
      compiled: this.#results.get(tenant) ?? 0,
      records: this.#records.get(tenant, Date.now()) ?? 0,
      secrets: this.#secrets.get(tenant) ?? 0,
    };
  }

  /** Forgets a tenant that is gone: another of the same name has nothing. */
  forget(tenant: string): void {
    this.#known.delete(tenant);
  }

  /** Counts what a finished change has added. */
  added(tenant: string, bytes: number): void {
    const known = this.#known.get(tenant);
    if (known !== undefined) this.#known.set(tenant, known + bytes);
  }

  #summed(tenant: string): number {
    return Object.values(this.use(tenant)).reduce((sum, bytes) => sum + bytes, 0);
  }
}
