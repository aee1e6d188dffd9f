import { createHash } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import {
  Client,
  DatabaseError,
  Pool,
  types as parsers,
  type ClientConfig,
  type CustomTypesConfig,
  type PoolClient,
} from "pg";
import { BerthError } from "../../lib/errors.ts";
import type { Log } from "../../lib/log.ts";

/** Connections for work. Those of the node itself, and for unknown tokens, are apart; the feed has one more. */
const CONNECTIONS = 8;
/** A connection that is not there by then is not waited for. */
const CONNECT_MS = 5_000;
/** The longest that one statement may take, and that a transaction may stand still where it may take long. */
const STATEMENT_MS = 30_000;
const STILL_MS = 10_000;
/** A connection is lost over which no answer came for so much longer, or no sign of life for so long. */
const ANSWER_MS = 5_000;
const KEEP_ALIVE_MS = 10_000;
/** The longest that the reader of a snapshot may stand still: the database removes nothing that it may yet see. */
const READER_MS = 600_000;
/** How often a transaction begins again that others have kept from its end. */
const ATTEMPTS = 6;
const AGAIN_MS = 20;

/** Values in, rows out. Columns are named as the fields of the type. */
export type RunSql = <Row extends object = object>(sql: string, values?: readonly unknown[]) => Promise<Row[]>;

/**
 * A Postgres database, over connections that any pool between here and there may share: nothing is kept on a connection
 * beyond one transaction, and no statement has a name. Whatever Postgres or the network throws becomes `store_failed`.
 */
export class PostgresDatabase {
  readonly #pool: Pool;
  readonly #url: string;
  readonly #statementMs: number;
  /** The end of the last change of each tenant that has one under way. */
  readonly #changing = new Map<string, Promise<void>>();
  /** The connections in use, without those whose statements may take long. */
  readonly #hurried = new Set<PoolClient>();
  /** True while it is known to be out of reach: who asks then is not kept waiting for what cannot come. */
  isAway: () => boolean = () => false;

  constructor(url: string, log?: Log, statementMs = STATEMENT_MS, connections = CONNECTIONS) {
    this.#url = url;
    this.#statementMs = statementMs;
    this.#pool = new Pool({ ...connectionOf(url, statementMs), max: connections, idleTimeoutMillis: 60_000 });
    // The error of an idle connection has all of that connection in it.
    this.#pool.on("error", (error) =>
      log?.warn({ err: asStoreFailure(error) }, "an idle connection to the database was lost"),
    );
    this.#pool.on("acquire", (client) => this.#hurried.add(client));
    this.#pool.on("release", (_error, client) => this.#hurried.delete(client));
  }

  /** Ends the connections over which callers wait for a database that does not answer; they get errors. */
  dropWaiting(): void {
    // Types leave out that it is a client.
    for (const client of this.#hurried) void (client as unknown as Client).end();
  }

  /** One statement, which is a transaction by itself; it is never tried twice. */
  readonly run: RunSql = async <Row extends object>(sql: string, values: readonly unknown[] = []) => {
    // No text here holds it, and Postgres refuses to look.
    if (sql.startsWith("SELECT") && values.some((value) => typeof value === "string" && value.includes("\0")))
      return [];
    this.#checkReach();
    try {
      return (await this.#pool.query<Row>(sql, [...values])).rows;
    } catch (error) {
      throw asStoreFailure(error);
    }
  };

  #checkReach(): void {
    if (this.isAway()) throw new BerthError("store_failed", AWAY);
  }

  /**
   * Commits all that `work` does, or nothing of it. It begins again where others were in its way, unless it may run only
   * `once`. What is `durable` is on the disk when this resolves; the rest a moment later. Rejects with `store_uncertain` where
   * the connection was lost in the commit.
   */
  async transaction<T>(
    work: (run: RunSql) => Promise<T>,
    how: TransactionSettings & { readonly tenant?: string } = {},
  ): Promise<T> {
    for (let attempts = 1; ; attempts++) {
      try {
        return await this.#attempt(work, how);
      } catch (error) {
        if (how.isOnce || attempts === ATTEMPTS || !isWorthAnother(error)) throw error;
        await pause(AGAIN_MS * attempts * Math.random());
      }
    }
  }

  /**
   * As `transaction`, for a change of a tenant, one after the other. Those of this process wait here for their turn, so that
   * one tenant's changes leave connections to others.
   */
  async change<T>(tenant: string, work: (run: RunSql) => Promise<T>, how?: TransactionSettings): Promise<T> {
    const asked = performance.now();
    const before = this.#changing.get(tenant);
    let end = (): void => {};
    const own = new Promise<void>((resolve) => (end = resolve));
    this.#changing.set(tenant, own);
    try {
      await before;
      if (performance.now() - asked > this.#statementMs) throw new BerthError("store_failed", TOO_LONG);
      return await this.transaction(work, { ...how, tenant });
    } finally {
      if (this.#changing.get(tenant) === own) this.#changing.delete(tenant);
      end();
    }
  }

  async #attempt<T>(work: (run: RunSql) => Promise<T>, how: TransactionSettings & { tenant?: string }): Promise<T> {
    const { isDurable = true, isLong, tenant } = how;
    this.#checkReach();
    const client = await this.#pool.connect().catch((error: unknown) => {
      throw asStoreFailure(error);
    });
    if (isLong) this.#hurried.delete(client);
    let lost: Error | undefined;
    const onError = (error: Error): void => void (lost ??= error);
    client.on("error", onError);
    const ask = async (sql: string, values: readonly unknown[] = []) => {
      try {
        return await client.query({ text: sql, values: [...values], ...(isLong && UNHURRIED) });
      } catch (error) {
        // Another connection may lead to the server that takes writes.
        if (!isAnswer(error) || codeOf(error) === READ_ONLY) lost ??= error as Error;
        throw asStoreFailure(error);
      }
    };
    const run = (async (sql, values) => (await ask(sql, values)).rows) as RunSql;
    try {
      const locked = tenant === undefined ? "" : `; ${lockOf("tenant", tenant)}`;
      await run(`${BEGIN}${limitsOf(this.#statementMs, isLong)}${isDurable ? "" : QUICK}${locked}`);
      const result = await work(run);
      // It had not come to the commit.
      if (lost) throw asStoreFailure(lost);
      await this.#commit(client, ask);
      return result;
    } catch (error) {
      if (!lost) await ask("ROLLBACK").catch(() => {});
      throw error;
    } finally {
      client.off("error", onError);
      client.release(lost);
    }
  }

  async #commit(client: PoolClient, ask: (sql: string) => Promise<{ readonly command: string }>): Promise<void> {
    const warnings: unknown[] = [];
    const onNotice = (notice: unknown): void => void warnings.push(notice);
    client.on("notice", onNotice);
    try {
      const { command } = await ask("COMMIT");
      if (command !== "COMMIT") throw new BerthError("store_failed", "the database undid the change; try again");
    } catch (error) {
      const { cause } = error as Error;
      if (!cause || (isAnswer(cause) && !isLost(codeOf(cause)))) throw error;
      throw new BerthError("store_uncertain", "the connection to the database was lost while it committed", { cause });
    } finally {
      client.off("notice", onNotice);
    }
    const [cause] = warnings;
    // Somebody ended the wait for the servers that were to have it, too.
    if (cause) throw new BerthError("store_uncertain", "a failover of the database may lose the change", { cause });
  }

  /** Reads what stands there at one moment, however long reading takes: on a connection of its own, so that nobody waits for it. */
  async snapshot(): Promise<Snapshot> {
    const client = new Client(connectionOf(this.#url));
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
  readonly #client: Client;
  #cursors = 0;

  constructor(client: Client) {
    this.#client = client;
  }

  readonly run: RunSql = async <Row extends object>(sql: string, values: readonly unknown[] = []) => {
    try {
      return (await this.#client.query<Row>(sql, [...values])).rows;
    } catch (error) {
      throw asStoreFailure(error);
    }
  };

  /** As `run`, with so many rows in memory at a time. */
  parts<Row extends object>(sql: string, values: readonly unknown[], atOnce: number): AsyncGenerator<Row[]> {
    return partsOf<Row>(this.run, `part${++this.#cursors}`, sql, values, atOnce);
  }

  async close(): Promise<void> {
    await this.#client.end().catch(() => {});
  }
}

/** Reads in a transaction, with so many rows in memory at a time, by a cursor that nothing else there has the name of. */
export async function* partsOf<Row extends object>(
  run: RunSql,
  cursor: string,
  sql: string,
  values: readonly unknown[],
  atOnce: number,
): AsyncGenerator<Row[]> {
  await run(`DECLARE ${cursor} NO SCROLL CURSOR FOR ${sql}`, values);
  for (;;) {
    const rows = await run<Row>(`FETCH ${atOnce} FROM ${cursor}`);
    if (rows.length > 0) yield rows;
    if (rows.length < atOnce) break;
  }
  await run(`CLOSE ${cursor}`);
}

export interface TransactionSettings {
  readonly isDurable?: boolean;
  readonly isOnce?: boolean;
  /** Each of its statements takes as long as it takes. */
  readonly isLong?: boolean;
}

/** Whoever stands still has lost its transaction, however long that may take: others wait for it, at its end all others. */
function limitsOf(ms: number, isLong = false): string {
  const [statementMs, stillMs] = isLong ? [0, ms] : [ms, Math.min(ms, STILL_MS)];
  return `; SET LOCAL statement_timeout = ${statementMs}; SET LOCAL idle_in_transaction_session_timeout = ${stillMs}`;
}

const QUICK = "; SET LOCAL synchronous_commit = off";
/** Node knows no longer time. */
const UNHURRIED = { query_timeout: 2 ** 31 - 1 };
/** Who reads may wait in between for somebody who reads slowly. */
/** Whatever the database has by default: who has waited for a lock sees what its holder has left. */
const BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED";
const BEGIN_SNAPSHOT = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = ${STATEMENT_MS};
  SET LOCAL idle_in_transaction_session_timeout = ${READER_MS}`;

/** Numbers of 64 bits arrive as numbers: none here is beyond what a number holds exactly. */
const types: CustomTypesConfig = {
  getTypeParser: ((id: number, format: "text" | "binary") =>
    id === INT8 || id === NUMERIC ? Number : parsers.getTypeParser(id, format)) as typeof parsers.getTypeParser,
};
const INT8 = 20;
const NUMERIC = 1_700;

export function connectionOf(connectionString: string, statementMs = STATEMENT_MS): ClientConfig {
  return {
    connectionString,
    types,
    connectionTimeoutMillis: CONNECT_MS,
    query_timeout: statementMs + ANSWER_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    application_name: "berth",
  };
}

/** Whoever listens between here and the database reads all that goes over the connection: its password first. */
export function isOpenToListeners(url: string): boolean {
  const { ssl, host } = new Client(connectionOf(url));
  return !ssl && !/^(?:127\.|::1$|localhost$|\/)/.test(host);
}

/**
 * Waits until nobody else holds this, and holds it until the transaction ends. Whoever takes several takes them in this
 * order: tenants, contents by their CIDs, chains of the audit log by their tenants, and the counter of changes at last.
 */
export async function lock(run: RunSql, kind: LockKind, name: string): Promise<void> {
  await run(lockOf(kind, name));
}

type LockKind = "upgrade" | "keys" | "tenant" | "secrets" | "lease" | "retention";

/** A statement without parameters, which may follow another one. */
export function lockOf(kind: LockKind, name: string): string {
  const key = createHash("sha256").update(`${kind} ${name}`).digest().readBigInt64BE();
  return `SELECT pg_advisory_xact_lock(${key})`;
}

const READ_ONLY = "25006";

/** The database itself said it, so that its code is a SQLSTATE. */
function isAnswer(error: unknown): boolean {
  return error instanceof DatabaseError;
}

function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === "string" ? code : "";
}

/** Others moved first, hold what this waits for, or removed what this refers to. */
function isWorthAnother(error: unknown): boolean {
  const isFailure = error instanceof BerthError && error.code === "store_failed";
  return isFailure && ["40001", "40P01", "23503"].includes(codeOf(error.cause));
}

/** The session has ended: its connection failed, or an administrator or a shutdown ended it. */
function isLost(code: string): boolean {
  return code.startsWith("08") || code.startsWith("57P");
}

export function asStoreFailure(error: unknown): BerthError {
  if (error instanceof BerthError) return error;
  return new BerthError("store_failed", whatFailed(error), { cause: error });
}

const AWAY = "the database cannot be reached; nothing was changed, and it works again once it can";
const TOO_LONG = "the database took too long, and nothing was changed; try again";

/** Says what failed without an address, a name or a value: the caller sees it, and the log has the cause. */
function whatFailed(error: unknown): string {
  const code = codeOf(error);
  if (code === "53100") return "the disk of the database is full, and nothing was changed; free some space";
  if (code === READ_ONLY || code === "55000")
    return "the database takes no writes; BERTH_DATABASE must name the server that does";
  if (code.startsWith("28") || code === "3D000") return "the database refuses the user or the name in BERTH_DATABASE";
  if (code === "42501")
    return "the user in BERTH_DATABASE may not do what Berth needs: make it the owner of the database and its tables";
  if (code === "57014" || code === "55P03" || code === "25P03") return TOO_LONG;
  if (code === "22021") return "a text has the character NUL in it, which the database cannot keep";
  if (code === "54000") return "a name or a key is too long for the database, which takes some 2,500 bytes";
  if (code === "53300") return "the database takes no more connections; each node of Berth needs up to 14";
  if (isAnswer(error) && !isLost(code) && !code.startsWith("53"))
    return `the database refused a statement (SQLSTATE ${code}), and nothing was changed`;
  if (code === "ERR_INVALID_URL") return "BERTH_DATABASE is not the address of a database: see docs/settings.md";
  if (/CERT|SIGNATURE|TLS/.test(code) || /\bSSL\b/.test((error as Error).message))
    return "the database and Berth do not agree on TLS: see sslmode in BERTH_DATABASE, and the log";
  return AWAY;
}
