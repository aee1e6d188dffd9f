import { randomBytes } from "node:crypto";
import type { Block, Cid } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import { makeAlias } from "../aliases.ts";
import { leftoverIds } from "../leftover-claims.ts";
import { contentMissing, verifyLongBytes } from "../rules.ts";
import { newValue } from "../server-data.ts";
import { rows, type Steps } from "../steps.ts";
import type { NamedChange, ServerValue, TenantStaging } from "../store.ts";
import type { TenantChanges } from "../tenants.ts";
import { valueSize } from "../value-rules.ts";
import { claimContents, putContents, readContent } from "./content.ts";
import type { PostgresDatabase, RunSql } from "./database.ts";
import { postgresDialect } from "./dialect.ts";
import { tryRemoveAliasData, removeAliasData, runSteps } from "./steps.ts";

/** The maximum size and number of rows written in one transaction. */
const BYTES_AT_ONCE = 1024 * 1024;
const ROWS_AT_ONCE = 1_000;
/** The heartbeat interval of an import, and the time without a heartbeat after which another process cleans up. */
const HEARTBEAT_MS = 30_000;
const EXPIRY_MS = 600_000;

const ASYNC_COMMIT = { isDurable: false } as const;
const LONG = { isLong: true } as const;

/** Assembles a tenant under an alias, and gives it its name in a single transaction. */
export async function postgresTenantStaging(
  database: PostgresDatabase,
  changes: TenantChanges,
): Promise<TenantStaging> {
  await removeLeftovers(database);
  const id = randomBytes(8).toString("hex");
  const [coming, gone] = [makeAlias(id, "coming"), makeAlias(id, "gone")];
  await database.run("INSERT INTO staging (id, expires_at) VALUES ($1, berth_now() + $2::bigint)", [id, EXPIRY_MS]);
  const sendHeartbeat = (): void =>
    void database
      .run("UPDATE staging SET expires_at = berth_now() + $2::bigint WHERE id = $1", [id, EXPIRY_MS])
      .catch(() => {});
  const heartbeat = setInterval(sendHeartbeat, HEARTBEAT_MS).unref();

  let batch = new Batch();
  const flush = async (): Promise<void> => {
    const { contents, changes, values } = batch;
    batch = new Batch();
    await database.transaction(async (run) => {
      await claimContents(run, coming, (await putContents(run, [...contents.values()])).values());
      await addChanges(run, coming, changes);
      await runSteps(run, postgresDialect.putValues(coming, values.map(newValue)));
    }, ASYNC_COMMIT);
  };
  const flushIfFull = async (): Promise<void> => {
    if (batch.isFull) await flush();
  };

  return {
    async put(block) {
      await verifyLongBytes(block.cid, block.bytes);
      batch.put(block);
      await flushIfFull();
    },
    content: async (cid) => batch.contents.get(cid)?.bytes ?? (await readContent(database.run, coming, cid)),
    async add(change) {
      batch.add(change);
      await flushIfFull();
    },
    async addValue(value) {
      batch.addValue(value);
      await flushIfFull();
    },

    async publish(name, settings) {
      await flush();
      await database.change(
        name,
        async (run) => {
          const [own] = await run("SELECT 1 FROM staging WHERE id = $1 FOR SHARE", [id]);
          if (!own)
            throw new BerthError("store_failed", "the import stalled for too long; nothing was changed; try again");
          await runSteps(
            run,
            changes.publish(name, settings, { coming, gone }, () => moveChanges(coming, name)),
          );
        },
        LONG,
      );
      await tryRemoveAliasData(database, gone);
    },

    async close() {
      clearInterval(heartbeat);
      await tryRemoveAliasData(database, coming);
      await database.run("DELETE FROM staging WHERE id = $1", [id]).catch(() => {});
    },
  };
}

class Batch {
  readonly contents = new Map<Cid, Block>();
  readonly changes: NamedChange[] = [];
  readonly values: ServerValue[] = [];
  #bytes = 0;

  get isFull(): boolean {
    return (
      this.#bytes >= BYTES_AT_ONCE || this.contents.size + this.changes.length + this.values.length >= ROWS_AT_ONCE
    );
  }

  put(block: Block): void {
    this.contents.set(block.cid, block);
    this.#bytes += block.bytes.length;
  }

  add(change: NamedChange): void {
    this.changes.push(change);
  }

  addValue(value: ServerValue): void {
    this.values.push(value);
    this.#bytes += valueSize(value.key, value.value);
  }
}

/** With numbers below all local changes, so that no node takes them for current changes. */
async function addChanges(run: RunSql, alias: string, changes: readonly NamedChange[]): Promise<void> {
  if (changes.length === 0) return;
  const columns = ["kind", "name", "cid", "changedAt", "by"] as const;
  await run(
    `INSERT INTO name_change (id, tenant, kind, name, cid, changed_at, changed_by, writer)
     SELECT nextval('imported_change'), $1, kind, name, cid, changed_at, changed_by, ''
     FROM (SELECT * FROM unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[])
       WITH ORDINALITY AS each (kind, name, cid, changed_at, changed_by, turn) ORDER BY turn) AS ordered`,
    [alias, ...columns.map((column) => changes.map((change) => change[column]))],
  );
}

/** Gives the tenant the changes, and the names that result from them. Returns the number of changes. */
function* moveChanges(alias: string, name: string): Steps<number> {
  const [missing] = yield* rows<Pick<NamedChange, "kind" | "name"> & { readonly cid: Cid }>(
    `SELECT kind, name, cid FROM name_change AS change WHERE tenant = $1 AND cid IS NOT NULL AND NOT EXISTS (
       SELECT 1 FROM content JOIN tenant_content ON content_id = content.id
       WHERE content.cid = change.cid AND tenant_content.tenant = $2) ORDER BY id LIMIT 1`,
    [alias, name],
  );
  if (missing) throw contentMissing(missing.kind, missing.name, missing.cid);
  yield* rows(
    `INSERT INTO name (tenant, kind, name, cid, changed_at)
     SELECT $2, kind, name, cid, changed_at FROM (
       SELECT DISTINCT ON (kind, name) kind, name, cid, changed_at FROM name_change WHERE tenant = $1
       ORDER BY kind, name, id DESC) AS last
     WHERE cid IS NOT NULL`,
    [alias, name],
  );
  const [moved] = yield* rows<{ changes: number }>(
    `WITH moved AS (UPDATE name_change SET tenant = $2 WHERE tenant = $1 RETURNING 1)
     SELECT count(*) AS changes FROM moved`,
    [alias, name],
  );
  return moved!.changes;
}

/** Removes what terminated processes left behind while they assembled or removed a tenant. */
export async function removeLeftovers(database: PostgresDatabase): Promise<void> {
  await database.run("DELETE FROM staging WHERE expires_at <= berth_now()");
  const ids = await runSteps(database.run, leftoverIds());
  const active = await database.run<{ id: string }>("SELECT id FROM staging WHERE id = ANY ($1)", [ids]);
  for (const id of ids) {
    if (active.some((each) => each.id === id)) continue;
    for (const suffix of ["coming", "gone"] as const) await removeAliasData(database, makeAlias(id, suffix));
  }
}
