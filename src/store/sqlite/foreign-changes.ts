import Database from "#better-sqlite3";
import { SERVICE } from "../../audit/audit-entry.ts";
import { BerthError } from "../../lib/errors.ts";
import type { NewChange } from "../dialect.ts";
import type { ForeignChange } from "../rules.ts";
import { rows, type Steps } from "../steps.ts";
import { foreignLog, identityOf } from "./store-files.ts";
import type { WriteAheadLog } from "./write-ahead-log.ts";

/** How soon a change of another process is noticed, and how soon where other nodes serve from the same store. */
const LOOK_MS = 500;
const LOOK_AMONG_NODES_MS = 50;
/** The most changes that one look reads, so that nothing waits for it for long; the next one follows at once. */
const LOOK_ROWS = 1_000;

/**
 * Notices names that other processes have changed in the same database. A look that finds nothing reads one number from
 * shared memory, and there are no looks without a listener.
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
  /** Changes of our own after `#seenId`. */
  readonly #own = new Set<number>();
  #timer: NodeJS.Timeout | undefined;
  #everyMs = LOOK_MS;
  #isReplaced = false;

  constructor(database: Database.Database, log: WriteAheadLog) {
    this.#log = log;
    this.#file = database.name;
    this.#identity = identityOf(database.name);
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
      this.#timer = this.#begin();
    }
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) this.close();
    };
  }

  /** Calls `listener` when everything may have changed: another process restored or upgraded the database. */
  listenToReplacing(listener: () => void): () => void {
    this.#onReplaced.add(listener);
    const stop = this.listen(() => {});
    return () => {
      this.#onReplaced.delete(listener);
      stop();
    };
  }

  /** Notes changes that were committed here, and returns their numbers. */
  add(ids: readonly number[]): readonly number[] {
    if (this.#timer) for (const id of ids) this.#own.add(id);
    return ids;
  }

  /** Reports changes made here that may be lost as if another process had made them: their caller got an error. */
  async tellIfUnsure<T>(changed: readonly ForeignChange[], kept: Promise<T>): Promise<T> {
    try {
      return await kept;
    } catch (error) {
      if (error instanceof BerthError && error.code === "store_uncertain") this.#tell(changed);
      throw error;
    }
  }

  /** Among other nodes, changes may come at any time. */
  expect(fromNodes: boolean): void {
    const everyMs = fromNodes ? LOOK_AMONG_NODES_MS : LOOK_MS;
    if (everyMs === this.#everyMs) return;
    this.#everyMs = everyMs;
    if (!this.#timer) return;
    clearInterval(this.#timer);
    this.#timer = this.#begin();
  }

  #begin(): NodeJS.Timeout {
    return setInterval(() => this.#look(), this.#everyMs).unref();
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#own.clear();
  }

  #look(): void {
    let changed: ForeignChange[] = [];
    try {
      this.#lookAtFile();
      changed = this.#read();
    } catch {
      // The database is busy or failing, which its users are told. The next look sees the same.
      if (!this.#isReplaced) return;
    }
    if (changed.length > 0) this.#tell(changed);
    if (this.#isReplaced) for (const listener of this.#onReplaced) listener();
    this.#isReplaced = false;
  }

  #tell(changed: readonly ForeignChange[]): void {
    for (const listener of this.#listeners) listener(changed);
  }

  /**
   * A store that cannot be restored in place is set aside, and another file put in its place. Any other file there was
   * made by mistake while the folder was away, and must not be served.
   */
  #lookAtFile(): void {
    const identity = identityOf(this.#file);
    if (identity === undefined || identity === this.#identity || foreignLog(this.#file) !== undefined) return;
    this.#isReplaced ||= hasRestoreBeyond(this.#database, this.#file);
  }

  #lookAtSchema(): void {
    const schema = this.#schema.get() ?? 0;
    this.#isReplaced ||= schema !== this.#seenSchema;
    this.#seenSchema = schema;
  }

  #read(): ForeignChange[] {
    const version = this.#log.version();
    const isSeen = version === this.#seenVersion;
    const rows = isSeen ? [] : this.#since.all(this.#seenId, LOOK_ROWS);
    if (!isSeen) this.#lookAtSchema();
    const changed = rows.filter(({ id }) => !this.#own.delete(id));
    if (rows.length === LOOK_ROWS) {
      this.#seenId = rows.at(-1)!.id;
      setImmediate(() => this.#timer && this.#look());
    } else {
      this.#seenVersion = version;
      for (const id of this.#own) this.#seenId = Math.max(this.#seenId, id);
      this.#seenId = Math.max(this.#seenId, rows.at(-1)?.id ?? 0);
      this.#own.clear();
    }
    return changed.map(({ tenant, kind, name }) => ({ tenant, kind, name }));
  }
}

/**
 * True when the audit log in `file`, which this process does not have open, knows of a restore that `database` does
 * not.
 */
function hasRestoreBeyond(database: Database.Database, file: string): boolean {
  const other = new Database(file, { readonly: true, fileMustExist: true });
  try {
    const restored = lastRestoreIn(other);
    return restored !== undefined && restored !== knownRestoreIn(database);
  } finally {
    other.close();
  }
}

/** The hash of the record. */
function lastRestoreIn(database: Database.Database): string | undefined {
  const restores = database.prepare<[string], string>(
    `SELECT hex(hash) FROM audit
     WHERE tenant = ? AND kind = 'service' AND json_valid(body) AND json_extract(body, '$.action') = 'restored'
     ORDER BY at DESC, rowid DESC LIMIT 1`,
  );
  return restores.pluck().get(SERVICE);
}

/** A store is usually set aside because it is damaged. */
function knownRestoreIn(database: Database.Database): string | undefined {
  try {
    return lastRestoreIn(database);
  } catch {
    return undefined;
  }
}

/** Adds changes to the history of names, and returns their numbers, for `ForeignChanges.add` once they are committed. */
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
