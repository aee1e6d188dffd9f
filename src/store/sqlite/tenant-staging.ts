import { randomBytes } from "node:crypto";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { open } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type Database from "#better-sqlite3";
import type { Block } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import { inLock, lockFile } from "../../lib/file-lock.ts";
import { aliasOf } from "../aliases.ts";
import { leftIds, removeClaims } from "../left-claims.ts";
import { contentMissing, verified } from "../rules.ts";
import { newValue } from "../server-data.ts";
import { rows, type Steps, type Write } from "../steps.ts";
import type { NamedChange, ServerValue, TenantStaging } from "../store.ts";
import type { Changed, TenantChanges } from "../tenants.ts";
import { sizeOf } from "../value-rules.ts";
import { SqliteContent } from "./content.ts";
import { sqliteDialect } from "./dialect.ts";
import { inTransaction, removeLeft, runSteps, shortWrites } from "./steps.ts";
import type { WriteAheadLog } from "./write-ahead-log.ts";

/** The most bytes of content written in one transaction, while others wait. */
const BYTES_AT_ONCE = 256 * 1024;
/** Counted for each value besides its bytes: a short one takes time, too. */
const VALUE_ROW_BYTES = 512;

/**
 * Assembles a tenant in a file beside the database, so that nothing unchecked ever enters the database. To publish it,
 * its content is written in steps, under a name that nobody can have, and then given to the tenant in one.
 */
export async function sqliteTenantStaging(
  database: Database.Database,
  log: WriteAheadLog,
  changes: TenantChanges,
  /** Runs the publishing transaction. */
  publish: (name: string, work: () => Steps<Changed<void>>) => Promise<void>,
): Promise<TenantStaging> {
  const contents = new SqliteContent(database);
  await removeLeftovers(database, shortWrites(database, log));
  const staged = await createStagingFile(dirname(database.name));
  const own = prepareStaged(staged);
  const [coming, gone] = [aliasOf(staged.id, "coming"), aliasOf(staged.id, "gone")];

  const write = function* (parts: readonly (Block | ServerValue)[]): Steps<void> {
    for (const part of parts) {
      if ("cid" in part) contents.claim(coming, part);
      else yield* sqliteDialect.putValues(coming, [newValue(part)]);
    }
  };

  const moveChanges = function* (tenant: string): Steps<number> {
    const count = own.countChanges.get()!;
    // Older than all that was changed here, so that no process takes it for current changes.
    const [first] = yield* rows<{ id: number }>("SELECT min(0, min(id)) AS id FROM name_change");
    let id = (first?.id ?? 0) - count;
    for (const { kind, name, cid, changedAt, by } of own.changes.iterate()) {
      if (cid !== null && !contents.isClaimed(tenant, cid)) throw contentMissing(kind, name, cid);
      yield* rows(ADD_CHANGE, [id++, tenant, kind, name, cid, changedAt, by]);
    }
    for (const { kind, name, cid, changedAt } of own.names.iterate()) {
      if (cid !== null) yield* rows(ADD_NAME, [tenant, kind, name, cid, changedAt]);
    }
    return count;
  };

  return {
    async put({ cid, bytes }) {
      own.put.run(cid, verified(cid, bytes));
    },
    async content(cid) {
      return own.content.get(cid);
    },
    async add({ kind, name, cid, changedAt, by }) {
      own.add.run(kind, name, cid, changedAt, by);
    },

    async addValue({ kind, server, key, value, isJson, version, changedAt, expiresAt }) {
      own.addValue.run(kind, server, key, value, isJson ? 1 : 0, version, changedAt, expiresAt);
    },

    publish: async (name, settings) => {
      for (const batch of batches(partsOf(own))) {
        const began = performance.now();
        await log.write(() => inTransaction(database, () => write(batch)));
        // Waiters go first, for as long as they waited for this.
        await pause(performance.now() - began);
      }
      await publish(name, () => changes.publish(name, settings, { coming, gone }, () => moveChanges(name)));
      await removeLeft(database, log, gone);
    },

    async close() {
      await removeLeft(database, log, coming);
      staged.close();
    },
  };
}

/** Removes the leftovers of processes that ended while they assembled or removed a tenant. */
export async function removeLeftovers(database: Database.Database, write: Write): Promise<void> {
  const dataDir = dirname(database.name);
  for (const id of new Set([...runSteps(database, leftIds()), ...stagingIds(dataDir)])) {
    if (isStaging(dataDir, id)) continue;
    for (const what of ["coming", "gone"] as const) await removeClaims(write, sqliteDialect, aliasOf(id, what));
    removeStagingFile(dataDir, id);
  }
}

function* partsOf(own: ReturnType<typeof prepareStaged>): Generator<Block | ServerValue> {
  yield* own.contents.iterate();
  for (const row of own.values.iterate()) yield { ...row, isJson: row.isJson === 1 };
}

function* batches(parts: Iterable<Block | ServerValue>): Generator<(Block | ServerValue)[]> {
  let batch: (Block | ServerValue)[] = [];
  let bytes = 0;
  for (const part of parts) {
    batch.push(part);
    bytes += "cid" in part ? part.bytes.length : sizeOf(part.key, part.value) + VALUE_ROW_BYTES;
    if (bytes < BYTES_AT_ONCE) continue;
    yield batch;
    [batch, bytes] = [[], 0];
  }
  if (batch.length > 0) yield batch;
}

function prepareStaged({ database }: StagingFile) {
  database.exec(`
    CREATE TABLE content (cid TEXT PRIMARY KEY, bytes BLOB NOT NULL);
    CREATE TABLE change (
      id INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, cid TEXT, changed_at INTEGER NOT NULL, changed_by TEXT NOT NULL
    );
    CREATE TABLE value (
      kind TEXT NOT NULL, server TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, is_json INTEGER NOT NULL, version INTEGER NOT NULL,
      changed_at INTEGER NOT NULL, expires_at INTEGER
    );
  `);
  const columns = `kind, name, cid, changed_at AS changedAt, changed_by AS "by"`;
  return {
    put: database.prepare<[string, Uint8Array]>("INSERT OR IGNORE INTO content (cid, bytes) VALUES (?, ?)"),
    content: database.prepare<[string], Uint8Array>("SELECT bytes FROM content WHERE cid = ?").pluck(),
    contents: database.prepare<[], Block>("SELECT cid, bytes FROM content"),
    add: database.prepare<[string, string, string | null, number, string]>(
      "INSERT INTO change (kind, name, cid, changed_at, changed_by) VALUES (?, ?, ?, ?, ?)",
    ),
    addValue: database.prepare<[string, string, string, Uint8Array, number, number, number, number | null]>(
      `INSERT INTO value (kind, server, key, value, is_json, version, changed_at, expires_at)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    values: database.prepare<[], Omit<ServerValue, "isJson"> & { isJson: 0 | 1 }>(
      `SELECT kind, server, key, value, is_json AS isJson, version, changed_at AS changedAt, expires_at AS expiresAt
       FROM value`,
    ),
    countChanges: database.prepare<[], number>("SELECT count(*) FROM change").pluck(),
    changes: database.prepare<[], NamedChange>(`SELECT ${columns} FROM change ORDER BY id`),
    names: database.prepare<[], NamedChange>(`SELECT ${columns}, max(id) FROM change GROUP BY kind, name`),
  };
}

const ADD_CHANGE = `INSERT INTO name_change (id, tenant, kind, name, cid, changed_at, changed_by)
  VALUES ($1, $2, $3, $4, $5, $6, $7)`;
const ADD_NAME = "INSERT INTO name (tenant, kind, name, cid, changed_at) VALUES ($1, $2, $3, $4, $5)";

/**
 * Files of tenants that are being assembled, beside the database. The process that made one holds a lock on it that the
 * system releases when the process ends, however it ends: so abandoned files are recognized.
 */
interface StagingFile {
  readonly id: string;
  readonly database: Database.Database;
  /** Removes it. */
  close(): void;
}

const NAME = /^import-([0-9a-f]{16})\.sqlite$/;
const ATTEMPTS_MAX = 5;

async function createStagingFile(dataDir: string): Promise<StagingFile> {
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
    const id = randomBytes(8).toString("hex");
    const file = fileOf(dataDir, id);
    // It may hold secrets of the tenant.
    await (await open(file, "wx", 0o600)).close();
    const database = lockFile(file);
    // A cleanup of leftovers may have removed the file in the moment before the lock.
    if (database && existsSync(file)) {
      return {
        id,
        database,
        close() {
          rmSync(file, { force: true });
          database.close();
        },
      };
    }
    database?.close();
  }
  throw new BerthError("store_failed", `no file could be made in ${dataDir}`);
}

/** True while a process works on the file. */
function isStaging(dataDir: string, id: string): boolean {
  const file = fileOf(dataDir, id);
  return existsSync(file) && inLock(file, () => {}) === "busy";
}

/** The ids of all such files, in use or not. */
function stagingIds(dataDir: string): string[] {
  return readdirSync(dataDir).flatMap((name) => NAME.exec(name)?.[1] ?? []);
}

/** Removes a file that nobody works on. */
function removeStagingFile(dataDir: string, id: string): void {
  const file = fileOf(dataDir, id);
  if (existsSync(file) && inLock(file, () => rmSync(file, { force: true })) === "broken") rmSync(file, { force: true });
}

function fileOf(dataDir: string, id: string): string {
  return join(dataDir, `import-${id}.sqlite`);
}
