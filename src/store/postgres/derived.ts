import type { Cid } from "../../lib/cid.ts";
import type { DerivedEntry } from "../store.ts";
import { putContents } from "./content.ts";
import type { PostgresDatabase, RunSql } from "./database.ts";

/** Results that are lost when the database crashes can be derived again. */
const ASYNC_COMMIT = { isDurable: false } as const;

/** Derived results in Postgres, and the claims of tenants on them. */
export function postgresDerived(database: PostgresDatabase) {
  return {
    put: async (tenant: string, entries: readonly DerivedEntry[]): Promise<void> => {
      if (entries.length === 0) return;
      await database.change(
        tenant,
        async (run) => {
          const ids = await putContents(
            run,
            entries.map(({ block }) => block),
          );
          await putDerived(run, tenant, entries, ids);
        },
        ASYNC_COMMIT,
      );
    },

    hold: async (tenant: string, keys: readonly string[]): Promise<boolean> => {
      const uniqueKeys = [...new Set(keys)].sort();
      if (uniqueKeys.length === 0) return true;
      const [claimedCount] = await database.run<{ count: number }>(
        "SELECT count(*) FROM tenant_derived WHERE tenant = $1 AND key = ANY ($2)",
        [tenant, uniqueKeys],
      );
      // Claimed results always exist.
      if (claimedCount!.count === uniqueKeys.length) return true;
      return database.change(
        tenant,
        async (run) => {
          const existing = await run("SELECT key FROM derived WHERE key = ANY ($1) ORDER BY key FOR KEY SHARE", [
            uniqueKeys,
          ]);
          if (existing.length < uniqueKeys.length) return false;
          await claim(run, tenant, uniqueKeys);
          return true;
        },
        ASYNC_COMMIT,
      );
    },
  };
}

/** Part of a transaction that has put the contents of the results. Returns the number of newly claimed bytes. */
export async function putDerived(
  run: RunSql,
  tenant: string,
  entries: readonly DerivedEntry[],
  ids: ReadonlyMap<Cid, number>,
): Promise<number> {
  if (entries.length === 0) return 0;
  const sorted = entries.toSorted((a, b) => (a.key < b.key ? -1 : 1));
  const keys = sorted.map(({ key }) => key);
  await run(
    `INSERT INTO derived (key, content_id)
     SELECT key, id FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS each (key, id, at) ORDER BY at
     ON CONFLICT DO NOTHING`,
    [keys, sorted.map(({ block }) => ids.get(block.cid))],
  );
  const withSource = sorted.filter(({ madeOf }) => madeOf !== undefined);
  if (withSource.length > 0)
    await run(
      "INSERT INTO derived_source (key, cid) SELECT * FROM unnest($1::text[], $2::text[]) ON CONFLICT DO NOTHING",
      [withSource.map(({ key }) => key), withSource.map(({ madeOf }) => madeOf)],
    );
  return claim(run, tenant, keys);
}

async function claim(run: RunSql, tenant: string, keys: readonly string[]): Promise<number> {
  const [claimed] = await run<{ bytes: number }>(
    `WITH claimed AS (
       INSERT INTO tenant_derived (tenant, key) SELECT $1, key FROM unnest($2::text[]) AS key
       ON CONFLICT DO NOTHING RETURNING key)
     SELECT coalesce(sum(octet_length(bytes)), 0) AS bytes
     FROM claimed JOIN derived USING (key) JOIN content ON id = content_id`,
    [tenant, keys],
  );
  return claimed!.bytes;
}
