import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";
import { BerthError } from "../../lib/errors.ts";
import type { Log } from "../../lib/log.ts";

/** Connections for work; the feed has one more. */
const CONNECTIONS = 10;
/** A connection that is not there by then is not waited for. */
const CONNECT_MS = 5_000;
/** The longest that one statement may take, and a transaction may stand still. */
const STATEMENT_MS = 30_000;
/** The longest that the reader of a snapshot may stand still: the database removes nothing that it may yet see. */
const READER_MS = 600_000;
/** How often a transaction begins again that others have kept from its end. */
const ATTEMPTS = 6;
const AGAIN_MS = 20;

/** Values in, rows out. Columns are named as the fields of the type. */
export type Run = <Row extends object = object>(sql: string, values?: readonly unknown[]) => Promise<Row[]>;

/**
 * A Postgres database, over connections that any pool between here and there may share: nothing is kept on a connection
 * beyond one transaction, and no statement has a name. Whatever Postgres or the network throws becomes `store_failed`.
 */
export class PostgresDatabase {
  readonly #pool: pg.Pool;
  readonly #url: string;

  constructor(url: string, log?: Log) {
    this.#url = url;
    this.#pool = new pg.Pool({ ...connectionOf(url), max: CONNECTIONS, idleTimeoutMillis: 60_000 });
    this.#pool.on("error", (err) => log?.warn({ err }, "an idle connection to the database was lost"));
  }

  /** One statement, which is a transaction by itself; it is never tried twice. */
  readonly run: Run = async <Row extends object>(sql: string, values: readonly unknown[] = []) => {
    try {
      return (await this.#pool.query<Row>(sql, [...values])).rows;
    } catch (error) {
      throw asStoreFailure(error);
    }
  };

  /**
   * Commits all that `work` does, or nothing of it. It begins again where others were in its way, unless it may run only
   * `once`. What is `durable` is on the disk when this resolves; the rest a moment later. Rejects with `store_unsure` where
   * the connection was lost in the commit.
   */
  async transaction<T>(work: (run: Run) => Promise<T>, how: TransactionSettings = {}): Promise<T> {
    for (let attempts = 1; ; attempts++) {
      try {
        return await this.#attempt(work, how);
      } catch (error) {
        if (how.isOnce || attempts === ATTEMPTS || !isWorthAnother(error)) throw asStoreFailure(error);
        await pause(AGAIN_MS * attempts * Math.random());
      }
    }
  }

  async #attempt<T>(work: (run: Run) => Promise<T>, { isDurable = true }: TransactionSettings): Promise<T> {
    const client = await this.#pool.connect();
    let lost: Error | undefined;
    const onError = (error: Error): void => void (lost ??= error);
    client.on("error", onError);
    try {
      await client.query(isDurable ? BEGIN : BEGIN_QUICK);
      const result = await work(async (sql, values = []) => (await client.query(sql, [...values])).rows);
      await commit(client);
      return result;
    } catch (error) {
      await client.query("ROLLBACK").catch((failed: Error) => (lost ??= failed));
      throw error;
    } finally {
      client.off("error", onError);
      client.release(lost);
    }
  }

  /** What stands there at one moment, however long reading takes: on a connection of its own, so that nobody waits for it. */
  async snapshot(): Promise<Snapshot> {
    const client = new pg.Client(connectionOf(this.#url));
    // Whoever reads on hears of it.
    client.on("error", () => {});
    try {
      await client.connect();
      await client.query(BEGIN_SNAPSHOT);
      return new Snapshot(client);
    } catch (error) {
      await client.end().catch(() => {});
      throw asStoreFailure(error);
    }
  }

  close(): Promise<void> {
    return this.#pool.end();
  }
}

/** The first read fixes the moment. */
export class Snapshot {
  readonly #client: pg.Client;
  #cursors = 0;

  constructor(client: pg.Client) {
    this.#client = client;
  }

  readonly run: Run = async <Row extends object>(sql: string, values: readonly unknown[] = []) => {
    try {
      return (await this.#client.query<Row>(sql, [...values])).rows;
    } catch (error) {
      throw asStoreFailure(error);
    }
  };

  /** As `run`, with so many rows in memory at a time. */
  async *parts<Row extends object>(sql: string, values: readonly unknown[], atOnce: number): AsyncGenerator<Row[]> {
    const cursor = `part${++this.#cursors}`;
    await this.run(`DECLARE ${cursor} NO SCROLL CURSOR FOR ${sql}`, values);
    for (;;) {
      const rows = await this.run<Row>(`FETCH ${atOnce} FROM ${cursor}`);
      if (rows.length > 0) yield rows;
      if (rows.length < atOnce) break;
    }
    await this.run(`CLOSE ${cursor}`);
  }

  async close(): Promise<void> {
    await this.#client.end().catch(() => {});
  }
}

export interface TransactionSettings {
  readonly isDurable?: boolean;
  readonly isOnce?: boolean;
}

const LIMITS = `SET LOCAL statement_timeout = ${STATEMENT_MS}; SET LOCAL idle_in_transaction_session_timeout = ${STATEMENT_MS}`;
const BEGIN = `BEGIN; ${LIMITS}`;
/** Who reads may wait in between for somebody who reads slowly. */
const BEGIN_SNAPSHOT = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = ${STATEMENT_MS};
  SET LOCAL idle_in_transaction_session_timeout = ${READER_MS}`;
const BEGIN_QUICK = `${BEGIN}; SET LOCAL synchronous_commit = off`;

/** Numbers of 64 bits arrive as numbers: none here is beyond what a number holds exactly. */
const types: pg.CustomTypesConfig = {
  getTypeParser: ((id: number, format: "text" | "binary") =>
    id === INT8 || id === NUMERIC ? Number : pg.types.getTypeParser(id, format)) as typeof pg.types.getTypeParser,
};
const INT8 = 20;
const NUMERIC = 1_700;

export function connectionOf(connectionString: string): pg.ClientConfig {
  return { connectionString, types, connectionTimeoutMillis: CONNECT_MS, keepAlive: true, application_name: "berth" };
}

/**
 * Waits until nobody else holds this, and holds it until the transaction ends. Whoever takes several takes them in this
 * order: tenants, contents by their CIDs, chains of the audit log by their tenants, and the counter of changes at last.
 */
export async function lock(
  run: Run,
  kind: "upgrade" | "tenant" | "secrets" | "lease" | "retention",
  name: string,
): Promise<void> {
  await run("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [`berth ${kind} ${name}`]);
}

async function commit(client: pg.PoolClient): Promise<void> {
  try {
    await client.query("COMMIT");
  } catch (error) {
    if (codeOf(error).length === SQLSTATE_LENGTH && !isLost(codeOf(error))) throw error;
    throw new BerthError("store_unsure", "the connection to the database was lost while it committed", {
      cause: error,
    });
  }
}

const SQLSTATE_LENGTH = 5;

function codeOf(error: unknown): string {
  const { code } = error as { code?: unknown };
  return typeof code === "string" ? code : "";
}

/** Others moved first, hold what this waits for, or removed what this refers to. */
function isWorthAnother(error: unknown): boolean {
  return ["40001", "40P01", "23503"].includes(codeOf(error));
}

/** The session has ended: its connection failed, or an administrator or a shutdown ended it. */
function isLost(code: string): boolean {
  return code.startsWith("08") || code.startsWith("57P");
}

export function asStoreFailure(error: unknown): BerthError {
  if (error instanceof BerthError) return error;
  return new BerthError("store_failed", whatFailed(codeOf(error), (error as Error).message), { cause: error });
}

/** Says what failed without an address, a name or a value: the caller sees it, and the log has the cause. */
function whatFailed(code: string, message: string): string {
  if (code === "53100") return "the disk of the database is full, and nothing was changed; free some space";
  if (code === "25006") return "the database takes no writes; BERTH_DATABASE must name the server that does";
  if (code.startsWith("28") || code === "3D000") return "the database refuses the user or the name in BERTH_DATABASE";
  if (code === "57014" || code === "55P03") return "the database took too long, and nothing was changed; try again";
  const isServers = code.length === SQLSTATE_LENGTH && !isLost(code) && !code.startsWith("53");
  if (isServers) return `the database refused a statement (SQLSTATE ${code}), and nothing was changed`;
  if (isLost(code) || code.startsWith("53") || /^E[A-Z]+$/.test(code) || /connect|terminat|timeout/i.test(message))
    return "the database cannot be reached; nothing was changed, and it works again once it can";
  return "the database failed, and nothing was changed";
}
