import type Database from "#better-sqlite3";
import { BerthError } from "../../lib/errors.ts";
import type { StoredUse } from "../store.ts";
import type { WriteAheadLog } from "./write-ahead-log.ts";

const MAKE_ROOM =
  'remove packages, servers and state that are not needed, and keep earlier versions for fewer days (the limit "historyDays"); "berth collect" then frees what they took; or have the limit "storedBytes" raised';

/**
 * The bytes of content that each tenant has, and of results that it holds. They are summed once and counted from then
 * on: summing takes longer the more there is, and calls wait meanwhile. Additions of other processes are seen.
 */
export class StoredBytes {
  readonly #known = new Map<string, number>();
  readonly #contents: Database.Statement<[string], number | null>;
  readonly #packages: Database.Statement<[string], number | null>;
  readonly #results: Database.Statement<[string], number | null>;
  readonly #state: Database.Statement<[string], number | null>;
  readonly #records: Database.Statement<[string, number], number | null>;
  readonly #secrets: Database.Statement<[string], number | null>;
  readonly #log: Pick<WriteAheadLog, "version">;
  #seenVersion: number | undefined;

  constructor(database: Database.Database, log: Pick<WriteAheadLog, "version">) {
    this.#log = log;
    // SQLite knows the length of a blob without reading it.
    this.#contents = database
      .prepare<[string], number | null>(
        "SELECT SUM(LENGTH(bytes)) FROM tenant_content JOIN content ON id = content_id WHERE tenant = ?",
      )
      .pluck();
    this.#packages = database
      .prepare<[string], number | null>(
        `SELECT SUM(LENGTH(bytes)) FROM tenant_content JOIN content_leaf USING (content_id) JOIN content ON id = content_id
         WHERE tenant = ? AND is_package = 1`,
      )
      .pluck();
    this.#results = database
      .prepare<[string], number | null>(
        `SELECT SUM(LENGTH(bytes)) FROM tenant_derived JOIN derived USING (key) JOIN content ON id = content_id
         WHERE tenant = ?`,
      )
      .pluck();
    this.#state = database
      .prepare<[string], number | null>("SELECT SUM(bytes) FROM state_server WHERE tenant = ?")
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
    // A server writes its state at each call, and its sums stand beside it.
    return known + (this.#state.get(tenant) ?? 0);
  }

  /**
   * As `of`, with the other kinds as they were last summed: several processes write state all the time, and each would
   * have the others sum everything again.
   */
  lately(tenant: string): number {
    const known = this.#known.get(tenant);
    return known === undefined ? this.of(tenant) : known + (this.#state.get(tenant) ?? 0);
  }

  /** Throws `code` for a change after which the tenant would store `bytes`. */
  check(tenant: string, bytes: number, storedBytesMax: number, code: "storage_full" | "state_full"): void {
    if (bytes <= storedBytesMax) return;
    const use = this.use(tenant);
    const kinds = Object.entries(use).filter(([, each]) => each > 0);
    const parts = kinds.map((each) => each.join(" ")).join(", ");
    const detail = `it would be ${bytes} bytes, and may be ${storedBytesMax}, of all that the tenant stores (${parts})`;
    throw new BerthError(code, `${detail}; ${MAKE_ROOM}`, { data: { bytes, storedBytesMax, use: { ...use } } });
  }

  /** Everything by kind, summed anew. */
  use(tenant: string): StoredUse {
    const packages = this.#packages.get(tenant) ?? 0;
    return {
      packages,
      content: (this.#contents.get(tenant) ?? 0) - packages,
      compiled: this.#results.get(tenant) ?? 0,
      state: this.#state.get(tenant) ?? 0,
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

  /** Counts what another thread of this process has changed since `version`, while nobody else here wrote. */
  changedAside(version: number, tenant: string, bytes: number): void {
    // Where others wrote as well, it is summed anew.
    if (version !== this.#seenVersion) return;
    this.#seenVersion = this.#log.version();
    this.added(tenant, bytes);
  }

  #summed(tenant: string): number {
    const kinds = [this.#contents.get(tenant), this.#results.get(tenant), this.#secrets.get(tenant)];
    return [...kinds, this.#records.get(tenant, Date.now())].reduce<number>((sum, bytes) => sum + (bytes ?? 0), 0);
  }
}
