import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { BerthError } from "../../lib/errors.ts";
import type { Log } from "../../lib/log.ts";
import type { NewChange } from "../dialect.ts";
import type { ForeignChange } from "../rules.ts";
import { rows, type Steps } from "../steps.ts";
import { connectionOf, type PostgresDatabase, type RunSql } from "./database.ts";

/** How soon a change of another node is noticed without being told of it. */
const LOOK_MS = 500;
/**
 * The intervals without an answer after which the database counts as out of reach. Counted, since a pause of this process
 * looks like silence to a clock.
 */
const AWAY_INTERVALS = 6;
/** The most changes that one look reads; the next one follows at once. */
const LOOK_ROWS = 1_000;
/** How soon a lost connection that tells of changes is tried again. */
const LISTEN_AGAIN_MS = 5_000;
const CHANNEL = "berth";

/**
 * The changes of names of all nodes, in the order of their commits: each locks the counter until it is over, so that who
 * has read up to a number has missed none below. A notice of Postgres only makes a look come at once, and one that is lost
 * costs nothing. The same look finds letters, and tells the clock of the database.
 */
export class Feed {
  /** Who has the store open. */
  #writer = newWriter();
  readonly #database: PostgresDatabase;
  readonly #url: string;
  readonly #log: Log | undefined;
  readonly #listeners = new Set<(changed: readonly ForeignChange[]) => void>();
  readonly #onReplaced = new Set<() => void>();
  readonly #boxes = new Map<string, () => void>();
  #client: Client | undefined;
  #seen: number | undefined;
  #timeline: number | undefined;
  #clockAheadMs = 0;
  #lookedAt = performance.now();
  /** Intervals since the last answer. */
  #unanswered = 0;
  /** Called after each `AWAY_INTERVALS` without an answer. */
  onSilent: () => void = () => {};
  #looking: Promise<void> | undefined;
  #isWanted = false;
  #timer: NodeJS.Timeout | undefined;
  #listening: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(database: PostgresDatabase, url: string, log: Log | undefined) {
    this.#database = database;
    this.#url = url;
    this.#log = log;
  }

  /** Looks for the first time, from where on changes are told. */
  async open(): Promise<void> {
    await this.#look();
    this.#timer = setInterval(() => this.#poll(), LOOK_MS).unref();
    void this.#listen();
  }

  /** Milliseconds since the epoch by the clock of the database, as of the last look. */
  now(): number {
    return Math.round(performance.timeOrigin + performance.now() + this.#clockAheadMs);
  }

  /** True once the database refuses connections or does not answer for a while. */
  get isAway(): boolean {
    return this.#unanswered >= AWAY_INTERVALS;
  }

  /** Milliseconds for which no change of another node could be heard of; nothing that counts while all is well. */
  unheardMs(): number {
    return performance.now() - this.#lookedAt;
  }

  /**
   * Numbers and writes changes, as the last act of a transaction, and returns their numbers. Nodes hear of them once it is
   * committed.
   */
  *record(changes: readonly NewChange[]): Steps<number[]> {
    if (changes.length === 0) return [];
    const columns = ["tenant", "kind", "name", "cid", "changedAt", "by"] as const;
    // One statement, since all other writers wait from here to the commit.
    const [counter] = yield* rows<{ before: number }>(
      `WITH counter AS (
         UPDATE name_change_counter SET latest = latest + $1 RETURNING latest - $1 AS before),
       made AS (
         INSERT INTO name_change (id, tenant, kind, name, cid, changed_at, changed_by, writer)
         SELECT before + at, tenant, kind, name, cid, changed_at, changed_by, $2
         FROM counter, unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[])
           WITH ORDINALITY AS each (tenant, kind, name, cid, changed_at, changed_by, at))
       SELECT before, pg_notify($9, '') FROM counter`,
      [changes.length, this.#writer, ...columns.map((column) => changes.map((change) => change[column])), CHANNEL],
    );
    return changes.map((_, index) => counter!.before + 1 + index);
  }

  /** Part of a transaction: nodes look once it is committed. */
  async wake(run: RunSql): Promise<void> {
    await run("SELECT pg_notify($1, '')", [CHANNEL]);
  }

  listen(listener: (changed: readonly ForeignChange[]) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Calls `listener` when another database took over, or an older one: everything may have changed. */
  listenToReplacing(listener: () => void): () => void {
    this.#onReplaced.add(listener);
    return () => void this.#onReplaced.delete(listener);
  }

  onLetter(node: string, listener: () => void): () => void {
    this.#boxes.set(node, listener);
    return () => void this.#boxes.delete(node);
  }

  /** Reports changes that `work` made and that may be lost as if another node had made them: their caller got an error. */
  async telling<T>(changed: readonly ForeignChange[], work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof BerthError && error.code === "store_uncertain") {
        // They may yet appear, and then are told of as well.
        this.#writer = newWriter();
        this.#tell(changed);
      }
      throw error;
    }
  }

  #tell(changed: readonly ForeignChange[]): void {
    for (const listener of this.#listeners) listener(changed);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    clearTimeout(this.#listening);
    this.#database.dropWaiting();
    // A silent database never ends the connection.
    void this.#client?.end().catch(() => {});
    await this.#looking;
  }

  #poll(): void {
    if (++this.#unanswered % AWAY_INTERVALS === 0) this.onSilent();
    this.#lookSoon();
  }

  /** One at a time; who asks meanwhile gets another one after it. */
  #lookSoon(): void {
    this.#isWanted = true;
    if (this.#isClosed) return;
    this.#looking ??= (async () => {
      try {
        while (this.#isWanted && !this.#isClosed) {
          this.#isWanted = false;
          await this.#look();
        }
      } catch {
        // The next interval polls again.
      } finally {
        this.#looking = undefined;
      }
    })();
  }

  async #look(): Promise<void> {
    const began = performance.now();
    const [seen] = await this.#database.run<Seen>(
      `SELECT latest, berth_now() AS now,
         ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint AS timeline,
         ARRAY(SELECT DISTINCT to_node FROM letter WHERE to_node = ANY ($1)) AS boxes
       FROM name_change_counter`,
      [[...this.#boxes.keys()]],
    );
    this.#unanswered = 0;
    this.#readClock(seen!.now, began, performance.now());
    for (const box of seen!.boxes) this.#boxes.get(box)?.();
    const isOther = this.#timeline !== undefined && (seen!.timeline !== this.#timeline || seen!.latest < this.#seen!);
    this.#timeline = seen!.timeline;
    this.#seen ??= seen!.latest;
    if (isOther) {
      this.#seen = seen!.latest;
      this.#log?.warn("another database has taken over; nothing that was read from the one before is relied on");
      for (const listener of this.#onReplaced) listener();
    }
    while (this.#seen < seen!.latest) await this.#read(seen!.latest);
    this.#lookedAt = began;
  }

  async #read(latest: number): Promise<void> {
    const rows = await this.#database.run<ForeignChange & { readonly id: number; readonly writer: string }>(
      "SELECT id, tenant, kind, name, writer FROM name_change WHERE id > $1 AND id <= $2 ORDER BY id LIMIT $3",
      [this.#seen, latest, LOOK_ROWS],
    );
    this.#unanswered = 0;
    this.#seen = rows.length < LOOK_ROWS ? latest : rows.at(-1)!.id;
    const changed = rows.filter(({ writer }) => writer !== this.#writer);
    if (changed.length > 0) this.#tell(changed.map(({ tenant, kind, name }) => ({ tenant, kind, name })));
  }

  /** The answer was made at some moment between the question and its arrival: the clock is moved no more than it must be. */
  #readClock(now: number, began: number, ended: number): void {
    const least = now - (performance.timeOrigin + ended);
    const most = now + 1 - (performance.timeOrigin + began);
    this.#clockAheadMs = Math.min(Math.max(this.#clockAheadMs, least), most);
  }

  async #listen(): Promise<void> {
    if (this.#isClosed) return;
    const client = new Client(connectionOf(this.#url));
    let isOver = false;
    const again = (): void => {
      if (isOver) return;
      isOver = true;
      this.#client = undefined;
      void client.end().catch(() => {});
      if (!this.#isClosed) this.#listening = setTimeout(() => void this.#listen(), LISTEN_AGAIN_MS).unref();
    };
    client.on("error", again).on("end", again);
    client.on("notification", () => this.#lookSoon());
    try {
      this.#client = client;
      await client.connect();
      await client.query(`LISTEN ${CHANNEL}`);
      this.#lookSoon();
    } catch {
      again();
    }
  }
}

function newWriter(): string {
  return randomBytes(9).toString("base64url");
}

interface Seen {
  readonly latest: number;
  readonly now: number;
  readonly timeline: number;
  readonly boxes: readonly string[];
}
