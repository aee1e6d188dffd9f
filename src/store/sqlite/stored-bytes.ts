import type Database from "#better-sqlite3";
import type { WriteAheadLog } from "./write-ahead-log.ts";

/**
 * The bytes of content that each tenant has, and of results that it holds. They are summed once and counted from then
 * on: summing takes longer the more there is, and calls wait meanwhile. Additions of other processes are seen.
 */
export class StoredBytes {
  readonly #known = new Map<string, number>();
  readonly #sum: Database.Statement<[{ tenant: string }], number | null>;
  readonly #log: Pick<WriteAheadLog, "version">;
  #seenVersion: number | undefined;

  constructor(database: Database.Database, log: Pick<WriteAheadLog, "version">) {
    this.#log = log;
    // SQLite knows the length of a blob without reading it.
    this.#sum = database
      .prepare<[{ tenant: string }], number | null>(
        `SELECT SUM(LENGTH(bytes)) FROM (
           SELECT content_id FROM tenant_content WHERE tenant = @tenant
           UNION ALL SELECT content_id FROM tenant_derived JOIN derived USING (key) WHERE tenant = @tenant
         ) JOIN content ON id = content_id`,
      )
      .pluck();
  }

  /** Called within a change, so that nobody else adds to it meanwhile, and before that change adds anything itself. */
  of(tenant: string): number {
    const version = this.#log.version();
    if (version !== this.#seenVersion) this.#known.clear();
    this.#seenVersion = version;
    const known = this.#known.get(tenant) ?? this.#sum.get({ tenant }) ?? 0;
    this.#known.set(tenant, known);
    return known;
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
}
