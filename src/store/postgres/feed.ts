import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { BerthError } from "../../lib/errors.ts";
import type { Log } from "../../lib/log.ts";
import type { NewChange } from "../dialect.ts";
import type { ForeignChange } from "../rules.ts";
import { rows, type Steps } from "../steps.ts";
import { clientConfig, type PostgresDatabase, type RunSql } from "./database.ts";

/** The interval at which changes of other nodes are polled in addition to notifications. */
const POLL_MS = 500;
/**
 * If polling fails for this many intervals, the database counts as unreachable. Counted rather than timed, because a
 * pause of this process would look like an unresponsive database.
 */
const AWAY_INTERVALS = 6;
/** The maximum number of changes per query; the next query follows immediately. */
const POLL_ROWS = 1_000;
/** The reconnect interval of the connection for notifications. */
const RECONNECT_MS = 5_000;
const CHANNEL = "berth";

/**
 * The changes of names of all nodes in the order of their commits: each transaction locks the counter until it ends, so
 * a reader at number N has seen every earlier change. A notification of Postgres only triggers an immediate poll, so it
 * may be lost. A poll also finds messages for nodes, and reads the clock of the database.
 */
export class Feed {
  /** Identifies this process as the author of changes. */
  #writer = newWriter();
  readonly #database: PostgresDatabase;
  readonly #url: string;
  readonly #log: Log | undefined;
  readonly #listeners = new Set<(changed: readonly ForeignChange[]) => void>();
  readonly #onReplaced = new Set<() => void>();
  readonly #mailboxes = new Map<string, () => void>();
  #client: Client | undefined;
  #lastChange: number | undefined;
  #timeline: number | undefined;
  #clockAheadMs = 0;
  #polledAt = performance.now();
  /** Intervals since the last response. */
  #unanswered = 0;
  /** Called after every `AWAY_INTERVALS` intervals without a response. */
  onSilent: () => void = () => {};
  #polling: Promise<void> | undefined;
  #isPollRequested = false;
  #timer: NodeJS.Timeout | undefined;
  #reconnectTimer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(database: PostgresDatabase, url: string, log: Log | undefined) {
    this.#database = database;
    this.#url = url;
    this.#log = log;
  }

  /** Polls for the first time. Later changes are reported. */
  async open(): Promise<void> {
    await this.#poll();
    this.#timer = setInterval(() => this.#onInterval(), POLL_MS).unref();
    void this.#listen();
  }

  /** The clock of the database as of the last poll, in milliseconds since the epoch. */
  now(): number {
    return Math.round(performance.timeOrigin + performance.now() + this.#clockAheadMs);
  }

  /** True once the database has refused connections or been unresponsive for a while. */
  get isUnreachable(): boolean {
    return this.#unanswered >= AWAY_INTERVALS;
  }

  /** The time in milliseconds for which changes of other nodes may have been missed; negligible in normal operation. */
  unheardMs(): number {
    return performance.now() - this.#polledAt;
  }

  /**
   * Numbers and writes changes as the last act of a transaction. Returns their numbers. Nodes are notified on commit.
   */
  *record(changes: readonly NewChange[]): Steps<number[]> {
    if (changes.length === 0) return [];
    const columns = ["tenant", "kind", "name", "cid", "changedAt", "by"] as const;
    // A single statement, because all other writers wait from here until the commit.
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

  /** Part of a transaction: nodes poll after its commit. */
  async wake(run: RunSql): Promise<void> {
    await run("SELECT pg_notify($1, '')", [CHANNEL]);
  }

  listen(listener: (changed: readonly ForeignChange[]) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Calls `listener` when another or an older database took over: everything may have changed. */
  onReplaced(listener: () => void): () => void {
    this.#onReplaced.add(listener);
    return () => void this.#onReplaced.delete(listener);
  }

  onLetter(node: string, listener: () => void): () => void {
    this.#mailboxes.set(node, listener);
    return () => void this.#mailboxes.delete(node);
  }

  /** Reports uncertain changes of `work` as if another node had made them, because their caller got an error. */
  async notifyIfUncertain<T>(changed: readonly ForeignChange[], work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof BerthError && error.code === "store_uncertain") {
        // They may still become visible, and must then be reported as well.
        this.#writer = newWriter();
        this.#notify(changed);
      }
      throw error;
    }
  }

  #notify(changed: readonly ForeignChange[]): void {
    for (const listener of this.#listeners) listener(changed);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    clearTimeout(this.#reconnectTimer);
    this.#database.endTimedConnections();
    // An unresponsive database never closes the connection.
    void this.#client?.end().catch(() => {});
    await this.#polling;
  }

  #onInterval(): void {
    if (++this.#unanswered % AWAY_INTERVALS === 0) this.onSilent();
    this.#requestPoll();
  }

  /** Polls are serialized. Requests during a poll cause one more. */
  #requestPoll(): void {
    this.#isPollRequested = true;
    if (this.#isClosed) return;
    this.#polling ??= (async () => {
      try {
        while (this.#isPollRequested && !this.#isClosed) {
          this.#isPollRequested = false;
          await this.#poll();
        }
      } catch {
        // The next interval polls again.
      } finally {
        this.#polling = undefined;
      }
    })();
  }

  async #poll(): Promise<void> {
    const began = performance.now();
    const [result] = await this.#database.run<PollResult>(
      `SELECT latest, berth_now() AS now,
         ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint AS timeline,
         ARRAY(SELECT DISTINCT to_node FROM letter WHERE to_node = ANY ($1)) AS boxes
       FROM name_change_counter`,
      [[...this.#mailboxes.keys()]],
    );
    this.#unanswered = 0;
    this.#adjustClock(result!.now, began, performance.now());
    for (const mailbox of result!.boxes) this.#mailboxes.get(mailbox)?.();
    const isOtherDatabase =
      this.#timeline !== undefined && (result!.timeline !== this.#timeline || result!.latest < this.#lastChange!);
    this.#timeline = result!.timeline;
    this.#lastChange ??= result!.latest;
    if (isOtherDatabase) {
      this.#lastChange = result!.latest;
      this.#log?.warn("another database took over; discarding everything read from the previous one");
      for (const listener of this.#onReplaced) listener();
    }
    while (this.#lastChange < result!.latest) await this.#readChanges(result!.latest);
    this.#polledAt = began;
  }

  async #readChanges(latest: number): Promise<void> {
    const rows = await this.#database.run<ForeignChange & { readonly id: number; readonly writer: string }>(
      "SELECT id, tenant, kind, name, writer FROM name_change WHERE id > $1 AND id <= $2 ORDER BY id LIMIT $3",
      [this.#lastChange, latest, POLL_ROWS],
    );
    this.#unanswered = 0;
    this.#lastChange = rows.length < POLL_ROWS ? latest : rows.at(-1)!.id;
    const changed = rows.filter(({ writer }) => writer !== this.#writer);
    if (changed.length > 0) this.#notify(changed.map(({ tenant, kind, name }) => ({ tenant, kind, name })));
  }

  /** The response reflects some moment between sending and receiving: adjust the clock as little as possible. */
  #adjustClock(now: number, began: number, ended: number): void {
    const min = now - (performance.timeOrigin + ended);
    const max = now + 1 - (performance.timeOrigin + began);
    this.#clockAheadMs = Math.min(Math.max(this.#clockAheadMs, min), max);
  }

  async #listen(): Promise<void> {
    if (this.#isClosed) return;
    const client = new Client(clientConfig(this.#url));
    let isReconnecting = false;
    const reconnect = (): void => {
      if (isReconnecting) return;
      isReconnecting = true;
      this.#client = undefined;
      void client.end().catch(() => {});
      if (!this.#isClosed) this.#reconnectTimer = setTimeout(() => void this.#listen(), RECONNECT_MS).unref();
    };
    client.on("error", reconnect).on("end", reconnect);
    client.on("notification", () => this.#requestPoll());
    try {
      this.#client = client;
      await client.connect();
      await client.query(`LISTEN ${CHANNEL}`);
      this.#requestPoll();
    } catch {
      reconnect();
    }
  }
}

function newWriter(): string {
  return randomBytes(9).toString("base64url");
}

interface PollResult {
  readonly latest: number;
  readonly now: number;
  readonly timeline: number;
  readonly boxes: readonly string[];
}
