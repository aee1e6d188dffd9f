import { randomBytes } from "node:crypto";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { open } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type Database from "#better-sqlite3";
import type { Block } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import { withLock, lockFile } from "../../lib/file-lock.ts";
import { makeAlias } from "../aliases.ts";
import { leftoverIds, removeClaims } from "../leftover-claims.ts";
import { contentMissing, verifyBytes } from "../rules.ts";
import { newValue } from "../server-data.ts";
import { rows, type Steps, type Write } from "../steps.ts";
import type { NamedChange, ServerValue, TenantStaging } from "../store.ts";
import type { Changed, TenantChanges } from "../tenants.ts";
import { valueSize } from "../value-rules.ts";
import { SqliteContent } from "./content.ts";
import { sqliteDialect } from "./dialect.ts";
import { inTransaction, removeAliasData, runSteps, shortWrites } from "./steps.ts";
import type { WriteAheadLog } from "./write-ahead-log.ts";

/** The maximum size of content written in one transaction, while others wait. */
const BYTES_AT_ONCE = 256 * 1024;
/** Counted for each value in addition to its bytes, as short ones take time as well. */
const VALUE_ROW_BYTES = 512;

/**
 * Assembles a tenant in a file next to the database, so that nothing unchecked enters the database. To publish it, its
 * content is written in steps under an alias, and then given to the tenant in a single step.
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
  const statements = prepareStaged(staged);
  const [coming, gone] = [makeAlias(staged.id, "coming"), makeAlias(staged.id, "gone")];

  const write = function* (parts: readonly (Block | ServerValue)[]): Steps<void> {
    for (const part of parts) {
      if ("cid" in part) contents.claim(coming, part);
      else yield* sqliteDialect.putValues(coming, [newValue(part)]);
    }
  };

  const moveChanges = function* (tenant: string): Steps<number> {
    const count = statements.countChanges.get()!;
    // With numbers below all local changes, so that no process takes them for current changes.
    const [first] = yield* rows<{ id: number }>("SELECT min(0, min(id)) AS id FROM name_change");
    let id = (first?.id ?? 0) - count;
    for (const { kind, name, cid, changedAt, by } of statements.changes.iterate()) {
      if (cid !== null && !contents.isClaimed(tenant, cid)) throw contentMissing(kind, name, cid);
      yield* rows(ADD_CHANGE, [id++, tenant, kind, name, cid, changedAt, by]);
    }
    for (const { kind, name, cid, changedAt } of statements.names.iterate()) {
      if (cid !== null) yield* rows(ADD_NAME, [tenant, kind, name, cid, changedAt]);
    }
    return count;
  };

  return {
    async put({ cid, bytes }) {
      statements.put.run(cid, verifyBytes(cid, bytes));
    },
    async content(cid) {
      return statements.content.get(cid);
    },
    async add({ kind, name, cid, changedAt, by }) {
      statements.add.run(kind, name, cid, changedAt, by);
    },

    async addValue({ kind, server, key, value, isJson, version, changedAt, expiresAt }) {
      statements.addValue.run(kind, server, key, value, isJson ? 1 : 0, version, changedAt, expiresAt);
    },

    publish: async (name, settings) => {
      for (const batch of batches(readParts(statements))) {
        const began = performance.now();
        await log.write(() => inTransaction(database, () => write(batch)));
        // Let waiting writers go first, for as long as they waited.
        await pause(performance.now() - began);
      }
      await publish(name, () => changes.publish(name, settings, { coming, gone }, () => moveChanges(name)));
      await removeAliasData(database, log, gone);
    },

    async close() {
      await removeAliasData(database, log, coming);
      staged.close();
    },
  };
}

/** Removes what terminated processes left behind while they assembled or removed a tenant. */
export async function removeLeftovers(database: Database.Database, write: Write): Promise<void> {
  const dataDir = dirname(database.name);
  for (const id of new Set([...runSteps(database, leftoverIds()), ...stagingIds(dataDir)])) {
    if (isStaging(dataDir, id)) continue;
    for (const suffix of ["coming", "gone"] as const) await removeClaims(write, sqliteDialect, makeAlias(id, suffix));
    removeStagingFile(dataDir, id);
  }
}

function* readParts(statements: ReturnType<typeof prepareStaged>): Generator<Block | ServerValue> {
  yield* statements.contents.iterate();
  for (const row of statements.values.iterate()) yield { ...row, isJson: row.isJson === 1 };
}

function* batches(parts: Iterable<Block | ServerValue>): Generator<(Block | ServerValue)[]> {
  let batch: (Block | ServerValue)[] = [];
  let bytes = 0;
  for (const part of parts) {
    batch.push(part);
    bytes += "cid" in part ? part.bytes.length : valueSize(part.key, part.value) + VALUE_ROW_BYTES;
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
 * A file next to the database with a tenant that is being assembled. The creating process holds a lock on it, which the
 * system releases when the process ends in any way, so that abandoned files are recognized.
 */
interface StagingFile {
  readonly id: string;
  readonly database: Database.Database;
  close(): void;
}

const FILE_NAME = /^import-([0-9a-f]{16})\.sqlite$/;
const ATTEMPTS_MAX = 5;

async function createStagingFile(dataDir: string): Promise<StagingFile> {
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
    const id = randomBytes(8).toString("hex");
    const file = stagingFile(dataDir, id);
    // It may contain secrets of the tenant.
    await (await open(file, "wx", 0o600)).close();
    const database = lockFile(file);
    // A cleanup of leftovers may have removed the file just before the lock.
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
  throw new BerthError("store_failed", `no file could be created in ${dataDir}`);
}

/** True while a process works on the file. */
function isStaging(dataDir: string, id: string): boolean {
  const file = stagingFile(dataDir, id);
  return existsSync(file) && withLock(file, () => {}) === "busy";
}

/** The ids of all staging files, in use or not. */
function stagingIds(dataDir: string): string[] {
  return readdirSync(dataDir).flatMap((name) => FILE_NAME.exec(name)?.[1] ?? []);
}

/** Removes a file that is not in use. */
function removeStagingFile(dataDir: string, id: string): void {
  const file = stagingFile(dataDir, id);
  if (existsSync(file) && withLock(file, () => rmSync(file, { force: true })) === "broken")
    rmSync(file, { force: true });
}

function stagingFile(dataDir: string, id: string): string {
  return join(dataDir, `import-${id}.sqlite`);
}
