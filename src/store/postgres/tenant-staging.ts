import { randomBytes } from "node:crypto";
import type { Block, Cid } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import { aliasOf } from "../aliases.ts";
import { leftIds, moveClaims, moveRows, purge } from "../left-claims.ts";
import { CHANGES_OF_PLACE, contentMissing, verifiedInTurns, type Published } from "../rules.ts";
import { sizeOf } from "../state-room.ts";
import type { KeptState, NamedChange, PublishSettings, TenantStaging } from "../store.ts";
import { claimContents, putContents, readContent } from "./content.ts";
import type { PostgresDatabase, RunSql } from "./database.ts";
import { postgresDialect } from "./dialect.ts";
import { addState } from "./state.ts";
import { removeLater, removeLeft, runSteps } from "./steps.ts";

/** The bytes, and the rows, that are written in one transaction. */
const BYTES_AT_ONCE = 1024 * 1024;
const ROWS_AT_ONCE = 1_000;
/** The heartbeat interval of an import, and the time without a heartbeat after which another process cleans up. */
const ALIVE_MS = 30_000;
const SILENT_MS = 600_000;

const QUICK = { isDurable: false } as const;
const LONG = { isLong: true } as const;

/**
 * Assembles a tenant under a name that none can have, and gives it its own name in one transaction, of which `record` is
 * the last part.
 */
export async function postgresTenantStaging(
  database: PostgresDatabase,
  record: (run: RunSql, name: string, published: Published) => Promise<void>,
): Promise<TenantStaging> {
  await removeLeftovers(database);
  const id = randomBytes(8).toString("hex");
  const [coming, gone] = [aliasOf(id, "coming"), aliasOf(id, "gone")];
  await database.run("INSERT INTO staging (id, expires_at) VALUES ($1, berth_now() + $2::bigint)", [id, SILENT_MS]);
  const sayThatItLives = (): void =>
    void database
      .run("UPDATE staging SET expires_at = berth_now() + $2::bigint WHERE id = $1", [id, SILENT_MS])
      .catch(() => {});
  const alive = setInterval(sayThatItLives, ALIVE_MS).unref();

  let waiting = new Batch();
  const flush = async (): Promise<void> => {
    const { contents, changes, state } = waiting;
    waiting = new Batch();
    await database.transaction(async (run) => {
      await claimContents(run, coming, (await putContents(run, [...contents.values()])).values());
      await addChanges(run, coming, changes);
      await addState(run, coming, state);
    }, QUICK);
  };
  const flushIfFull = async (): Promise<void> => {
    if (waiting.isFull) await flush();
  };

  return {
    async put(block) {
      await verifiedInTurns(block.cid, block.bytes);
      waiting.put(block);
      await flushIfFull();
    },
    content: async (cid) => waiting.contents.get(cid)?.bytes ?? (await readContent(database.run, coming, cid)),
    async add(change) {
      waiting.add(change);
      await flushIfFull();
    },
    async addState(kept) {
      waiting.addState(kept);
      await flushIfFull();
    },

    async publish(name, settings) {
      await flush();
      await database.change(
        name,
        async (run) => {
          const [own] = await run("SELECT 1 FROM staging WHERE id = $1 FOR SHARE", [id]);
          if (!own)
            throw new BerthError("store_failed", "the import stood still for too long; nothing was changed; try again");
          const replaced = await makeRoom(run, name, gone, settings);
          await runSteps(run, moveClaims(postgresDialect, coming, name));
          await runSteps(run, moveRows("state_server", coming, name));
          const changes = await moveChanges(run, coming, name);
          await record(run, name, { by: settings.by, limits: settings.limits, replaced, changes });
        },
        LONG,
      );
      await removeLater(database, gone);
    },

    async close() {
      clearInterval(alive);
      await removeLater(database, coming);
      await database.run("DELETE FROM staging WHERE id = $1", [id]).catch(() => {});
    },
  };
}

/** Parts that wait to be written. */
class Batch {
  readonly contents = new Map<Cid, Block>();
  readonly changes: NamedChange[] = [];
  readonly state: KeptState[] = [];
  #bytes = 0;

  get isFull(): boolean {
    return this.#bytes >= BYTES_AT_ONCE || this.contents.size + this.changes.length + this.state.length >= ROWS_AT_ONCE;
  }

  put(block: Block): void {
    this.contents.set(block.cid, block);
    this.#bytes += block.bytes.length;
  }

  add(change: NamedChange): void {
    this.changes.push(change);
  }

  addState(kept: KeptState): void {
    this.state.push(kept);
    this.#bytes += sizeOf(kept.key, kept.value);
  }
}

/** Older than all that was changed here, so that no node takes them for current changes. */
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

/** True when there was a tenant of that name. */
async function makeRoom(
  run: RunSql,
  name: string,
  gone: string,
  { limits, replace }: PublishSettings,
): Promise<boolean> {
  const [before] = await run("SELECT 1 FROM tenant WHERE name = $1", [name]);
  if (!before) {
    await runSteps(run, purge(postgresDialect, name, gone));
    await run("INSERT INTO tenant (name, created_at, limits) VALUES ($1, berth_now(), $2)", [
      name,
      JSON.stringify(limits),
    ]);
    return false;
  }
  if (!replace && (await hasAnything(run, name))) throw new BerthError("tenant_exists", `"${name}"`);
  await runSteps(run, moveClaims(postgresDialect, name, gone));
  await runSteps(run, moveRows("state_server", name, gone));
  // They are of servers that are others now.
  await runSteps(run, moveRows("retained_call_server", name, gone));
  await run(
    `WITH names AS (DELETE FROM name WHERE tenant = $1), records AS (DELETE FROM record WHERE tenant = $1)
     DELETE FROM name_change WHERE tenant = $1 AND kind NOT IN ${CHANGES_OF_PLACE}`,
    [name],
  );
  // The nodes know by this that it is another tenant.
  await run(
    "UPDATE tenant SET replaced_at = greatest(berth_now(), coalesce(replaced_at, 0) + 1), limits = $2 WHERE name = $1",
    [name, JSON.stringify(limits)],
  );
  return true;
}

/** Gives the tenant the changes and the names that they lead to; returns the number of changes. */
async function moveChanges(run: RunSql, alias: string, name: string): Promise<number> {
  const [missing] = await run<Pick<NamedChange, "kind" | "name"> & { readonly cid: Cid }>(
    `SELECT kind, name, cid FROM name_change AS change WHERE tenant = $1 AND cid IS NOT NULL AND NOT EXISTS (
       SELECT 1 FROM content JOIN tenant_content ON content_id = content.id
       WHERE content.cid = change.cid AND tenant_content.tenant = $2) ORDER BY id LIMIT 1`,
    [alias, name],
  );
  if (missing) throw contentMissing(missing.kind, missing.name, missing.cid);
  await run(
    `INSERT INTO name (tenant, kind, name, cid, changed_at)
     SELECT $2, kind, name, cid, changed_at FROM (
       SELECT DISTINCT ON (kind, name) kind, name, cid, changed_at FROM name_change WHERE tenant = $1
       ORDER BY kind, name, id DESC) AS last
     WHERE cid IS NOT NULL`,
    [alias, name],
  );
  const [moved] = await run<{ changes: number }>(
    `WITH moved AS (UPDATE name_change SET tenant = $2 WHERE tenant = $1 RETURNING 1)
     SELECT count(*) AS changes FROM moved`,
    [alias, name],
  );
  return moved!.changes;
}

/** True if a tenant has content, a history of names, or state. */
export async function hasAnything(run: RunSql, name: string): Promise<boolean> {
  const [found] = await run<{ has: boolean }>(
    `SELECT EXISTS (SELECT 1 FROM tenant_content WHERE tenant = $1)
       OR EXISTS (SELECT 1 FROM state_server WHERE tenant = $1 AND keys > 0)
       OR EXISTS (SELECT 1 FROM name_change WHERE tenant = $1 AND kind NOT IN ${CHANGES_OF_PLACE}) AS has`,
    [name],
  );
  return found!.has;
}

/** Removes what processes left that ended while they assembled or removed a tenant. */
export async function removeLeftovers(database: PostgresDatabase): Promise<void> {
  await database.run("DELETE FROM staging WHERE expires_at <= berth_now()");
  const ids = await runSteps(database.run, leftIds());
  const alive = await database.run<{ id: string }>("SELECT id FROM staging WHERE id = ANY ($1)", [ids]);
  for (const id of ids) {
    if (alive.some((each) => each.id === id)) continue;
    for (const what of ["coming", "gone"] as const) await removeLeft(database, aliasOf(id, what));
  }
}
