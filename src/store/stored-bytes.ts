import type Database from "#better-sqlite3";
import type { WriteAheadLog } from "./write-ahead-log.ts";

/**
 * How many bytes of content each tenant has, and of results that it holds. They are added up once and counted on from then: adding up takes longer
 * the more there is, and whoever calls a tool meanwhile waits for it. What another process has added is seen.
 */
export class StoredBytes {
  readonly #known = new Map<string, number>();
  readonly #sum: Database.Statement<[{ tenant: string }], number | null>;
  readonly #log: Pick<WriteAheadLog, "version">;
  #seenVersion: number | undefined;

  constructor(database: Database.Database, log: Pick<WriteAheadLog, "version">) {
    this.#log = log;
    // The length of a blob is known without reading it.
    this.#sum = database
      .prepare<[{ tenant: string }], number | null>(
        `SELECT SUM(LENGTH(bytes)) FROM (
           SELECT content_id FROM tenant_content WHERE tenant = @tenant
           UNION ALL SELECT content_id FROM tenant_derived JOIN derived USING (key) WHERE tenant = @tenant
         ) JOIN content ON id = content_id`,
      )
      .pluck();
  }

  /** Asked within a change, so that nobody else adds to it until that is over, and before it adds anything itself. */
  of(tenant: string): number {
    const version = this.#log.version();
    if (version !== this.#seenVersion) this.#known.clear();
    this.#seenVersion = version;
    const known = this.#known.get(tenant) ?? this.#sum.get({ tenant }) ?? 0;
    this.#known.set(tenant, known);
    return known;
  }

  /** Of a tenant that is gone, another of the same name has nothing. */
  forget(tenant: string): void {
    this.#known.delete(tenant);
  }

  /** What a change that is over has added. */
  added(tenant: string, bytes: number): void {
    const known = this.#known.get(tenant);
    if (known !== undefined) this.#known.set(tenant, known + bytes);
  }
}
