import Database from "#better-sqlite3";
import { SERVICE } from "../../audit/audit-entry.ts";
import { BerthError } from "../../lib/errors.ts";
import type { NewChange } from "../dialect.ts";
import type { ForeignChange } from "../rules.ts";
import { rows, type Steps } from "../steps.ts";
import { foreignLog, fileIdentity } from "./store-files.ts";
import type { WriteAheadLog } from "./write-ahead-log.ts";

/** The interval at which changes of other processes are polled, without and with other nodes on the same store. */
const POLL_MS = 500;
const POLL_AMONG_NODES_MS = 50;
/** The maximum number of changes per poll, to keep it short; the next one follows immediately. */
const POLL_ROWS = 1_000;

/**
 * Notices names that other processes have changed in the same database. A poll that finds nothing only reads a number
 * from shared memory, and without listeners there are no polls.
 */
export class ForeignChanges {
  readonly #listeners = new Set<(changed: readonly ForeignChange[]) => void>();
  readonly #onReplaced = new Set<() => void>();
  readonly #log: WriteAheadLog;
  readonly #since: Database.Statement<[number, number], ForeignChange & { readonly id: number }>;
  readonly #newest: Database.Statement<[], number | null>;
  /** Changed only by an upgrade, or by a copy that replaced the whole database. */
  readonly #schema: Database.Statement<[], number>;
  readonly #database: Database.Database;
  readonly #file: string;
  readonly #identity: string | undefined;
  #seenSchema = 0;
  #seenVersion = 0;
  #seenId = 0;
  /** Changes of this process after `#seenId`. */
  readonly #ownIds = new Set<number>();
  #timer: NodeJS.Timeout | undefined;
  #intervalMs = POLL_MS;
  #isReplaced = false;

  constructor(database: Database.Database, log: WriteAheadLog) {
    this.#log = log;
    this.#file = database.name;
    this.#identity = fileIdentity(database.name);
    this.#database = database;
    this.#since = database.prepare("SELECT id, tenant, kind, name FROM name_change WHERE id > ? ORDER BY id LIMIT ?");
    this.#schema = database.prepare<[], number>("PRAGMA schema_version").pluck();
    this.#newest = database.prepare<[], number | null>("SELECT max(id) FROM name_change").pluck();
  }

  listen(listener: (changed: readonly ForeignChange[]) => void): () => void {
    this.#listeners.add(listener);
    if (!this.#timer) {
      this.#seenSchema = this.#schema.get() ?? 0;
      this.#seenVersion = this.#log.version();
      this.#seenId = this.#newest.get() ?? 0;
      this.#timer = this.#startTimer();
    }
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) this.close();
    };
  }

  /** Calls `listener` when everything may have changed, as another process restored or upgraded the database. */
  onReplaced(listener: () => void): () => void {
    this.#onReplaced.add(listener);
    const stop = this.listen(() => {});
    return () => {
      this.#onReplaced.delete(listener);
      stop();
    };
  }

  /** Registers changes that were committed by this process. Returns their numbers. */
  add(ids: readonly number[]): readonly number[] {
    if (this.#timer) for (const id of ids) this.#ownIds.add(id);
    return ids;
  }

  /** Reports uncertain changes of this process as if another one had made them, because their caller got an error. */
  async notifyIfUncertain<T>(changed: readonly ForeignChange[], durable: Promise<T>): Promise<T> {
    try {
      return await durable;
    } catch (error) {
      if (error instanceof BerthError && error.code === "store_uncertain") this.#notify(changed);
      throw error;
    }
  }

  /** Other nodes can make changes at any time. */
  adjustInterval(fromNodes: boolean): void {
    const intervalMs = fromNodes ? POLL_AMONG_NODES_MS : POLL_MS;
    if (intervalMs === this.#intervalMs) return;
    this.#intervalMs = intervalMs;
    if (!this.#timer) return;
    clearInterval(this.#timer);
    this.#timer = this.#startTimer();
  }

  #startTimer(): NodeJS.Timeout {
    return setInterval(() => this.#poll(), this.#intervalMs).unref();
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#ownIds.clear();
  }

  #poll(): void {
    let changed: ForeignChange[] = [];
    try {
      this.#checkFile();
      changed = this.#readChanges();
    } catch {
      // The database is busy or failing, which its users notice. The next poll reads the same.
      if (!this.#isReplaced) return;
    }
    if (changed.length > 0) this.#notify(changed);
    if (this.#isReplaced) for (const listener of this.#onReplaced) listener();
    this.#isReplaced = false;
  }

  #notify(changed: readonly ForeignChange[]): void {
    for (const listener of this.#listeners) listener(changed);
  }

  /**
   * A store that cannot be restored in place is moved aside, and another file put in its place. Any other file there
   * was created by mistake while the folder was unavailable, and must not be served.
   */
  #checkFile(): void {
    const identity = fileIdentity(this.#file);
    if (identity === undefined || identity === this.#identity || foreignLog(this.#file) !== undefined) return;
    this.#isReplaced ||= hasNewerRestore(this.#database, this.#file);
  }

  #checkSchema(): void {
    const schema = this.#schema.get() ?? 0;
    this.#isReplaced ||= schema !== this.#seenSchema;
    this.#seenSchema = schema;
  }

  #readChanges(): ForeignChange[] {
    const version = this.#log.version();
    const isUnchanged = version === this.#seenVersion;
    const rows = isUnchanged ? [] : this.#since.all(this.#seenId, POLL_ROWS);
    if (!isUnchanged) this.#checkSchema();
    const changed = rows.filter(({ id }) => !this.#ownIds.delete(id));
    if (rows.length === POLL_ROWS) {
      this.#seenId = rows.at(-1)!.id;
      setImmediate(() => this.#timer && this.#poll());
    } else {
      this.#seenVersion = version;
      for (const id of this.#ownIds) this.#seenId = Math.max(this.#seenId, id);
      this.#seenId = Math.max(this.#seenId, rows.at(-1)?.id ?? 0);
      this.#ownIds.clear();
    }
    return changed.map(({ tenant, kind, name }) => ({ tenant, kind, name }));
  }
}

/** True if the audit log in `file`, which this process does not have open, has a restore that `database` does not. */
function hasNewerRestore(database: Database.Database, file: string): boolean {
  const other = new Database(file, { readonly: true, fileMustExist: true });
  try {
    const restored = findLastRestore(other);
    return restored !== undefined && restored !== findLastRestoreIfReadable(database);
  } finally {
    other.close();
  }
}

/** Returns the hash of the record. */
function findLastRestore(database: Database.Database): string | undefined {
  const restores = database.prepare<[string], string>(
    `SELECT hex(hash) FROM audit
     WHERE tenant = ? AND kind = 'service' AND json_valid(body) AND json_extract(body, '$.action') = 'restored'
     ORDER BY at DESC, rowid DESC LIMIT 1`,
  );
  return restores.pluck().get(SERVICE);
}

/** The open store may be damaged, which is why it was replaced. */
function findLastRestoreIfReadable(database: Database.Database): string | undefined {
  try {
    return findLastRestore(database);
  } catch {
    return undefined;
  }
}

/** Adds changes to the history of names. Returns their numbers, for `ForeignChanges.add` after the commit. */
export function* recordChanges(changes: readonly NewChange[]): Steps<number[]> {
  const ids: number[] = [];
  for (const { tenant, kind, name, cid, changedAt, by } of changes) {
    const [added] = yield* rows<{ id: number }>(
      `INSERT INTO name_change (tenant, kind, name, cid, changed_at, changed_by) VALUES ($1, $2, $3, $4, $5, $6)
       RETURNING id`,
      [tenant, kind, name, cid, changedAt, by],
    );
    ids.push(added!.id);
  }
  return ids;
}
