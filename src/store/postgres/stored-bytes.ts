import { BoundedMap } from "../../lib/bounded-map.ts";
import { CHANGE_BYTES, storageFull } from "../rules.ts";
import { dataKinds, type DataBytes } from "../server-data.ts";
import { rows, type Steps } from "../steps.ts";
import { storedKinds, type StorageFullCode, type StorageUsage } from "../store.ts";

/** How long sums are cached for writes of server data, which happen at every call, and for how many tenants. */
const CACHE_MS = 10_000;
const CACHE_MAX = 10_000;

/** The bytes that each tenant stores, by kind. Postgres knows the length of a content without reading it. */
export class StoredSums {
  readonly #cache = new BoundedMap<string, { readonly at: number; readonly use: StorageUsage }>(CACHE_MAX);

  *current(tenant: string): Steps<StorageUsage> {
    const [use] = yield* rows<StorageUsage>(
      `SELECT packages, content, compiled, records, secrets, history, ${SERVER_DATA_BYTES} FROM
         (SELECT coalesce(sum(length) FILTER (WHERE is_package), 0) AS packages,
            coalesce(sum(length) FILTER (WHERE NOT is_package), 0) AS content
          FROM tenant_content, ${LENGTH} WHERE tenant = $1) AS contents,
         (SELECT coalesce(sum(length), 0) AS compiled
          FROM tenant_derived,
            LATERAL (SELECT content_id FROM derived WHERE derived.key = tenant_derived.key OFFSET 0) AS result, ${LENGTH}
          WHERE tenant = $1) AS results,
         (SELECT coalesce(sum(octet_length(value)), 0) AS records
          FROM record WHERE tenant = $1 AND expires_at > berth_now()) AS records,
         (SELECT coalesce(sum(octet_length(sealed)), 0) AS secrets FROM secret WHERE tenant = $1) AS secrets,
         (SELECT count(*) * ${CHANGE_BYTES} AS history FROM name_change WHERE tenant = $1) AS changes`,
      [tenant],
    );
    // In the order of `storedKinds`, as messages list them.
    return Object.fromEntries(storedKinds.map((kind) => [kind, use![kind]])) as StorageUsage;
  }

  /** The same given the current sizes of server data, but with other kinds up to some seconds old. */
  *recent(tenant: string, serverData: DataBytes): Steps<StorageUsage> {
    const cached = this.#cache.get(tenant);
    if (cached && performance.now() - cached.at < CACHE_MS) return { ...cached.use, ...serverData };
    const use = yield* this.current(tenant);
    this.#cache.set(tenant, { at: performance.now(), use });
    return use;
  }

  /** Drops the cached sums, as a new tenant of the same name has nothing. */
  forget(tenant: string): void {
    this.#cache.delete(tenant);
  }
}

/** One index lookup per row: a tenant has few of all contents. */
const LENGTH =
  "LATERAL (SELECT octet_length(bytes) AS length, is_package FROM content WHERE id = content_id OFFSET 0) AS held";

/** The data of the servers of tenant `$1`, by kind. */
const SERVER_DATA_BYTES = dataKinds
  .map((kind) => `(SELECT coalesce(sum(bytes), 0) FROM server_data WHERE tenant = $1 AND kind = '${kind}') AS ${kind}`)
  .join(", ");

/** Throws `code` if adding so many bytes exceeds the limit of what a tenant may store. */
export function checkQuota(use: StorageUsage, added: number, storedBytesMax: number, code: StorageFullCode): void {
  const bytes = storedKinds.reduce((sum, kind) => sum + use[kind], added);
  if (bytes > storedBytesMax) throw storageFull(code, { bytes, storedBytesMax, use });
}
