import { matches, type Cid } from "../../lib/cid.ts";
import { PostgresDatabase, type RunSql } from "./database.ts";

/** The state of a database, as far as it affects its backups: its contents, and the relevant settings of Postgres. */
export interface DatabaseState {
  readonly contents: number;
  readonly bytes: number;
  readonly damaged: readonly Cid[];
  /** Problems of the settings, for display. */
  readonly warnings: readonly string[];
  /** When Postgres last archived a WAL file, in milliseconds since the epoch; undefined for never. */
  readonly archivedAt: number | undefined;
}

/** The maximum size of contents read at once, but at least one content. */
const READ_BYTES = 16 * 1024 * 1024;
const READ_CONTENTS = 1_000;

export async function checkDatabase(url: string): Promise<DatabaseState> {
  const database = new PostgresDatabase(url);
  try {
    let [contents, bytes, last] = [0, 0, 0];
    const damaged: Cid[] = [];
    for (let batch; (batch = await contentsAfter(database.run, last)).length > 0; last = batch.at(-1)!.id) {
      for (const content of batch) {
        contents += 1;
        bytes += content.bytes.length;
        if (!matches(content.cid, content.bytes)) damaged.push(content.cid);
      }
    }
    return { contents, bytes, damaged, ...(await checkSettings(database.run)) };
  } finally {
    await database.close();
  }
}

interface ReadContent {
  readonly id: number;
  readonly cid: Cid;
  readonly bytes: Uint8Array;
}

function contentsAfter(run: RunSql, id: number): Promise<ReadContent[]> {
  return run<ReadContent>(
    `WITH ahead AS (
       SELECT id, sum(octet_length(bytes)) OVER (ORDER BY id) - octet_length(bytes) AS bytes_before
       FROM (SELECT id, bytes FROM content WHERE id > $1 ORDER BY id LIMIT $2) AS part)
     SELECT id, cid, bytes FROM ahead JOIN content USING (id) WHERE bytes_before < $3 ORDER BY id`,
    [id, READ_CONTENTS, READ_BYTES],
  );
}

async function checkSettings(run: RunSql): Promise<Pick<DatabaseState, "warnings" | "archivedAt">> {
  const [found] = await run<{
    fsync: string;
    pages: string;
    sums: string;
    archivedAt: number | null;
    failedAt: number | null;
  }>(
    `SELECT current_setting('fsync') AS fsync, current_setting('full_page_writes') AS pages,
       current_setting('data_checksums') AS sums,
       floor(extract(epoch FROM last_archived_time) * 1000)::bigint AS "archivedAt",
       floor(extract(epoch FROM last_failed_time) * 1000)::bigint AS "failedAt"
     FROM pg_stat_archiver`,
  );
  const { fsync, pages, sums, archivedAt, failedAt } = found!;
  const faults: [boolean, string][] = [
    [fsync === "off", "fsync is off: a power cut may damage the database and lose what was acknowledged"],
    [pages === "off", "full_page_writes is off: a power cut may damage the database"],
    [sums === "off", "data_checksums is off: damage on disk is found only in contents that Berth reads"],
    [failedAt !== null && failedAt > (archivedAt ?? 0), "archiving fails: the latest WAL files are not archived"],
  ];
  const warnings = faults.flatMap(([isProblem, text]) => (isProblem ? [text] : []));
  return { warnings, archivedAt: archivedAt ?? undefined };
}
