import { BoundedMap } from "../../lib/bounded-map.ts";
import { CHANGE_BYTES, full } from "../rules.ts";
import { dataKinds, type DataBytes } from "../server-data.ts";
import { rows, type Steps } from "../steps.ts";
import { storedKinds, type FullCode, type StoredUse } from "../store.ts";

/** Sums of this long ago are good enough for the data of servers, which they write at each call; for so many tenants. */
const LATELY_MS = 10_000;
const LATELY_MAX = 10_000;

/** The bytes that each tenant stores, by kind. Postgres knows the length of a content without reading it. */
export class StoredSums {
  readonly #lately = new BoundedMap<string, { readonly at: number; readonly use: StoredUse }>(LATELY_MAX);

  /** All kinds, as they are now. */
  *of(tenant: string): Steps<StoredUse> {
    const [use] = yield* rows<StoredUse>(
      `SELECT packages, content, compiled, records, secrets, history, ${OF_SERVERS} FROM
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
    // Its keys in the order in which people are told of them.
    return Object.fromEntries(storedKinds.map((kind) => [kind, use![kind]])) as StoredUse;
  }

  /** As `of`, given the data of servers, and with all other kinds as they were some seconds ago at most. */
  *lately(tenant: string, ofServers: DataBytes): Steps<StoredUse> {
    const known = this.#lately.get(tenant);
    if (known && performance.now() - known.at < LATELY_MS) return { ...known.use, ...ofServers };
    const use = yield* this.of(tenant);
    this.#lately.set(tenant, { at: performance.now(), use });
    return use;
  }

  /** Another tenant of the same name has nothing. */
  forget(tenant: string): void {
    this.#lately.delete(tenant);
  }
}

/** By the index, one after the other: a tenant has few of all contents. */
const LENGTH =
  "LATERAL (SELECT octet_length(bytes) AS length, is_package FROM content WHERE id = content_id OFFSET 0) AS held";

/** The data of the servers of the tenant `$1`, by kind. */
const OF_SERVERS = dataKinds
  .map((kind) => `(SELECT coalesce(sum(bytes), 0) FROM server_data WHERE tenant = $1 AND kind = '${kind}') AS ${kind}`)
  .join(", ");

/** Throws `code` for a change that adds so many bytes to what a tenant stores, where that is more than it may. */
export function checkRoom(use: StoredUse, added: number, storedBytesMax: number, code: FullCode): void {
  const bytes = storedKinds.reduce((sum, kind) => sum + use[kind], added);
  if (bytes > storedBytesMax) throw full(code, { bytes, storedBytesMax, use });
}
