import type { KeyedRecordPut, RecordKind, StoredRecord } from "../../lib/records.ts";
import type { PostgresDatabase, RunSql } from "./database.ts";

/** How often writes remove expired records, and at most how many at once. */
const EXPIRED_EVERY_MS = 1_000;
const EXPIRED_AT_ONCE = 1_000;

/** Expiring records in Postgres. */
export function postgresRecords(database: PostgresDatabase) {
  let removedAt = -Infinity;

  /** Calls `berth_now` once: a volatile call per row would not use the index. */
  const removeExpired = async (run: RunSql): Promise<void> => {
    if (performance.now() - removedAt < EXPIRED_EVERY_MS) return;
    removedAt = performance.now();
    await run(
      `DELETE FROM record WHERE ctid = ANY (ARRAY (
         SELECT ctid FROM record WHERE expires_at <= (SELECT berth_now()) ORDER BY expires_at LIMIT ${EXPIRED_AT_ONCE}
         FOR UPDATE SKIP LOCKED))`,
    );
  };

  return {
    get: async (tenant: string, kind: RecordKind, key: string): Promise<StoredRecord | undefined> => {
      const [record] = await database.run<StoredRecord>(
        `SELECT value, revision FROM record
         WHERE tenant = $1 AND kind = $2 AND key = $3 AND expires_at > berth_now()`,
        [tenant, kind, key],
      );
      return record;
    },

    /** Returns the new revision of each. */
    putAll: async (
      tenant: string,
      kind: RecordKind,
      puts: readonly KeyedRecordPut[],
      isDurable: boolean,
    ): Promise<(number | undefined)[]> => {
      if (puts.length === 0) return [];
      return database.transaction(
        async (run) => {
          const revisions: (number | undefined)[] = [];
          for (const indexes of distinctRounds(puts)) {
            const roundPuts = indexes.map((index) => puts[index]!);
            const revisionByKey = new Map(
              (await putDistinct(run, tenant, kind, roundPuts)).map(({ key, revision }) => [key, revision]),
            );
            for (const index of indexes) revisions[index] = revisionByKey.get(puts[index]!.key);
          }
          await removeExpired(run);
          return revisions;
        },
        { isDurable },
      );
    },

    /** A write without an effect. Part of a transaction. */
    writeNothing: async (run: RunSql): Promise<void> => {
      await run(
        `INSERT INTO record (tenant, kind, key, revision, value, expires_at) VALUES ('', 'check', '', 1, '', berth_now())
         ON CONFLICT (tenant, kind, key) DO UPDATE SET revision = record.revision + 1, expires_at = excluded.expires_at`,
      );
    },
  };
}

/** Groups the indexes of puts into rounds for one statement each, in which no key occurs twice. */
function distinctRounds(puts: readonly KeyedRecordPut[]): number[][] {
  const counts = new Map<string, number>();
  const rounds: number[][] = [];
  for (const [index, { key }] of puts.entries()) {
    const round = counts.get(key) ?? 0;
    counts.set(key, round + 1);
    (rounds[round] ??= []).push(index);
  }
  return rounds;
}

/** Only writes if the revision is as expected. A new record may replace an expired one. */
function putDistinct(
  run: RunSql,
  tenant: string,
  kind: RecordKind,
  puts: readonly KeyedRecordPut[],
): Promise<{ key: string; revision: number }[]> {
  const columns = ["key", "value", "expected", "expiresAt"] as const;
  return run(
    `WITH put AS (
       SELECT * FROM unnest($3::text[], $4::text[], $5::bigint[], $6::bigint[]) AS put (key, value, expected, expires_at)),
       made AS (
         INSERT INTO record (tenant, kind, key, revision, value, expires_at)
         SELECT $1, $2, key, 1, value, expires_at FROM put WHERE expected = 0 ORDER BY key
         ON CONFLICT (tenant, kind, key) DO UPDATE
         SET revision = 1, value = excluded.value, expires_at = excluded.expires_at
         WHERE record.expires_at <= berth_now() RETURNING key, revision),
       changed AS (
         UPDATE record SET revision = record.revision + 1, value = put.value, expires_at = put.expires_at FROM put
         WHERE tenant = $1 AND kind = $2 AND record.key = ANY ($3) AND record.key = put.key AND put.expected > 0
           AND record.revision = put.expected AND record.expires_at > berth_now()
         RETURNING record.key, record.revision)
     SELECT key, revision FROM made UNION ALL SELECT key, revision FROM changed`,
    [tenant, kind, ...columns.map((column) => puts.map((put) => put[column]))],
  );
}
