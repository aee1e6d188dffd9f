import { BoundedMap } from "../../lib/bounded-map.ts";
import { CHANGE_BYTES, full, type FullCode } from "../rules.ts";
import { storedKinds, type StoredUse } from "../store.ts";
import type { RunSql } from "./database.ts";

/** Sums of this long ago are good enough for state, which servers write at each call; for so many tenants. */
const LATELY_MS = 10_000;
const LATELY_MAX = 10_000;

/** The bytes that each tenant stores, by kind. Postgres knows the length of a content without reading it. */
export class StoredSums {
  readonly #lately = new BoundedMap<string, { readonly at: number; readonly use: StoredUse }>(LATELY_MAX);

  /** All kinds, as they are now. */
  async of(run: RunSql, tenant: string): Promise<StoredUse> {
    const [use] = await run<StoredUse>(
      `SELECT packages, content, compiled, records, secrets, history, ${STATE} AS state, ${CALLS} AS calls FROM
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

  /** As `of`, with all kinds but state and retained calls as they were some seconds ago at most. */
  async lately(run: RunSql, tenant: string): Promise<StoredUse> {
    const known = this.#lately.get(tenant);
    if (known && performance.now() - known.at < LATELY_MS) {
      const [beside] = await run<Pick<StoredUse, "state" | "calls">>(`SELECT ${STATE} AS state, ${CALLS} AS calls`, [
        tenant,
      ]);
      return { ...known.use, ...beside };
    }
    const use = await this.of(run, tenant);
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

/** That of the tenant `$1`, whose sums stand beside it. */
const STATE = "(SELECT coalesce(sum(bytes), 0) FROM state_server WHERE tenant = $1)";

/** The same for its retained calls. */
const CALLS = "(SELECT coalesce(sum(bytes), 0) FROM retained_call_server WHERE tenant = $1)";

/** Throws `code` for a change that adds so many bytes to what a tenant stores, where that is more than it may. */
export function checkRoom(use: StoredUse, added: number, storedBytesMax: number, code: FullCode): void {
  const bytes = storedKinds.reduce((sum, kind) => sum + use[kind], added);
  if (bytes > storedBytesMax) throw full(code, { bytes, storedBytesMax, use });
}
