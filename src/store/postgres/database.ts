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

/** Connections for regular work. The node itself, unknown tokens and the feed have separate ones. */
const CONNECTIONS = 8;
/** Connection timeout. */
const CONNECT_MS = 5_000;
/** The maximum duration of a statement, and the maximum idle time within a transaction whose statements may be slow. */
const STATEMENT_MS = 30_000;
const IDLE_MS = 10_000;
/** How much longer the client waits for the response to a statement, and the interval of TCP keep-alive probes. */
const RESPONSE_MARGIN_MS = 5_000;
const KEEP_ALIVE_MS = 10_000;
/**
 * The maximum idle time of a snapshot's reader. Meanwhile, the database cannot vacuum anything that the snapshot sees.
 */
const SNAPSHOT_IDLE_MS = 600_000;
/** How often a transaction is attempted after conflicts, and the base of the backoff. */
const ATTEMPTS = 6;
const BACKOFF_MS = 20;

/** Runs a statement. Its columns have the names of the properties of `Row`. */
export type RunSql = <Row extends object = object>(sql: string, values?: readonly unknown[]) => Promise<Row[]>;

/**
 * A Postgres database, through connections that any pooler in between may share: there is no session state beyond one
 * transaction, and there are no named statements. All errors of Postgres and the network become `store_failed`.
 */
export class PostgresDatabase {
  readonly #pool: Pool;
  readonly #url: string;
  readonly #statementMs: number;
  /** The end of the last change of each tenant with changes in progress. */
  readonly #changeQueue = new Map<string, Promise<void>>();
  /** The connections in use, except those whose statements may be slow. */
  readonly #timed = new Set<PoolClient>();
  /** True while the database is known to be unreachable. Requests then fail immediately. */
  isUnreachable: () => boolean = () => false;

  constructor(url: string, log?: Log, statementMs = STATEMENT_MS, connections = CONNECTIONS) {
    this.#url = url;
    this.#statementMs = statementMs;
    this.#pool = new Pool({ ...clientConfig(url, statementMs), max: connections, idleTimeoutMillis: 60_000 });
    // The error of an idle connection contains the entire connection.
    this.#pool.on("error", (error) =>
      log?.warn({ err: asStoreFailure(error) }, "an idle connection to the database was lost"),
    );
    this.#pool.on("acquire", (client) => this.#timed.add(client));
    this.#pool.on("release", (_error, client) => this.#timed.delete(client));
  }

  /** Ends the connections of callers who wait for an unresponsive database. The callers get errors. */
  endTimedConnections(): void {
    // The types omit that it is a client.
    for (const client of this.#timed) void (client as unknown as Client).end();
  }

  /** Runs one statement in its own transaction, without retries. */
  readonly run: RunSql = async <Row extends object>(sql: string, values: readonly unknown[] = []) => {
    // Postgres rejects texts with NUL, and none is stored.
    if (sql.startsWith("SELECT") && values.some((value) => typeof value === "string" && value.includes("\0")))
      return [];
    this.#checkReachable();
    try {
      return (await this.#pool.query<Row>(sql, [...values])).rows;
    } catch (error) {
      throw asStoreFailure(error);
    }
  };

  #checkReachable(): void {
    if (this.isUnreachable()) throw new BerthError("store_failed", UNREACHABLE);
  }

  /**
   * Commits everything that `work` does, or nothing. Retries after conflicts unless `isOnce`. If `isDurable`, the
   * changes are on disk when this resolves, otherwise shortly after. Rejects with `store_uncertain` if the connection
   * was lost during the commit.
   */
  async transaction<T>(
    work: (run: RunSql) => Promise<T>,
    settings: TransactionSettings & { readonly tenant?: string } = {},
  ): Promise<T> {
    for (let attempts = 1; ; attempts++) {
      try {
        return await this.#attempt(work, settings);
      } catch (error) {
        if (settings.isOnce || attempts === ATTEMPTS || !isRetryable(error)) throw error;
        await pause(BACKOFF_MS * attempts * Math.random());
      }
    }
  }

  /**
   * The same for a change of a tenant. Changes of one tenant are serialized. Those of this process wait here, so that
   * they leave connections to other tenants.
   */
  async change<T>(tenant: string, work: (run: RunSql) => Promise<T>, settings?: TransactionSettings): Promise<T> {
    const startedAt = performance.now();
    const previous = this.#changeQueue.get(tenant);
    let end = (): void => {};
    const current = new Promise<void>((resolve) => (end = resolve));
    this.#changeQueue.set(tenant, current);
    try {
      await previous;
      if (performance.now() - startedAt > this.#statementMs) throw new BerthError("store_failed", TOO_LONG);
      return await this.transaction(work, { ...settings, tenant });
    } finally {
      if (this.#changeQueue.get(tenant) === current) this.#changeQueue.delete(tenant);
      end();
    }
  }

  async #attempt<T>(
    work: (run: RunSql) => Promise<T>,
    settings: TransactionSettings & { tenant?: string },
  ): Promise<T> {
    const { isDurable = true, isLong, tenant } = settings;
    this.#checkReachable();
    const client = await this.#pool.connect().catch((error: unknown) => {
      throw asStoreFailure(error);
    });
    if (isLong) this.#timed.delete(client);
    let lost: Error | undefined;
    const onError = (error: Error): void => void (lost ??= error);
    client.on("error", onError);
    const query = async (sql: string, values: readonly unknown[] = []) => {
      try {
        return await client.query({ text: sql, values: [...values], ...(isLong && NO_CLIENT_TIMEOUT) });
      } catch (error) {
        // A new connection may reach the server that accepts writes.
        if (!isDatabaseError(error) || errorCode(error) === READ_ONLY) lost ??= error as Error;
        throw asStoreFailure(error);
      }
    };
    const run = (async (sql, values) => (await query(sql, values)).rows) as RunSql;
    try {
      const locked = tenant === undefined ? "" : `; ${lockStatement("tenant", tenant)}`;
      await run(`${BEGIN}${timeoutSettings(this.#statementMs, isLong)}${isDurable ? "" : ASYNC_COMMIT}${locked}`);
      const result = await work(run);
      // The connection was lost before the commit.
      if (lost) throw asStoreFailure(lost);
      await this.#commit(client, query);
      return result;
    } catch (error) {
      if (!lost) await query("ROLLBACK").catch(() => {});
      throw error;
    } finally {
      client.off("error", onError);
      client.release(lost);
    }
  }

  async #commit(client: PoolClient, query: (sql: string) => Promise<{ readonly command: string }>): Promise<void> {
    const warnings: unknown[] = [];
    const onNotice = (notice: unknown): void => void warnings.push(notice);
    client.on("notice", onNotice);
    try {
      const { command } = await query("COMMIT");
      if (command !== "COMMIT") throw new BerthError("store_failed", "the database rolled back the change; try again");
    } catch (error) {
      const { cause } = error as Error;
      if (!cause || (isDatabaseError(cause) && !isConnectionLost(errorCode(cause)))) throw error;
      throw new BerthError("store_uncertain", "the connection to the database was lost during the commit", { cause });
    } finally {
      client.off("notice", onNotice);
    }
    const [cause] = warnings;
    // An administrator ended the wait for the synchronous replicas.
    if (cause) throw new BerthError("store_uncertain", "a failover of the database may lose the change", { cause });
  }

  /** Opens a read-only transaction for one moment, on a connection of its own, so that it blocks no other work. */
  async snapshot(): Promise<Snapshot> {
    const client = new Client(clientConfig(this.#url));
    // The error is reported by the next read.
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

/** The first read determines the moment. */
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

  /** The same with at most `atOnce` rows in memory at a time. */
  parts<Row extends object>(sql: string, values: readonly unknown[], atOnce: number): AsyncGenerator<Row[]> {
    return readInBatches<Row>(this.run, `part${++this.#cursors}`, sql, values, atOnce);
  }

  async close(): Promise<void> {
    await this.#client.end().catch(() => {});
  }
}

/** Reads in a transaction with at most `atOnce` rows in memory, through a cursor with a unique name. */
export async function* readInBatches<Row extends object>(
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
  /** Its statements have no time limit. */
  readonly isLong?: boolean;
}

/** An idle client loses its transaction, because other transactions, and eventually vacuuming, wait for it. */
function timeoutSettings(ms: number, isLong = false): string {
  const [statementMs, idleMs] = isLong ? [0, ms] : [ms, Math.min(ms, IDLE_MS)];
  return `; SET LOCAL statement_timeout = ${statementMs}; SET LOCAL idle_in_transaction_session_timeout = ${idleMs}`;
}

const ASYNC_COMMIT = "; SET LOCAL synchronous_commit = off";
/** The longest timer of Node.js. */
const NO_CLIENT_TIMEOUT = { query_timeout: 2 ** 31 - 1 };
/** Whatever the default is: after waiting for a lock, a transaction must see the changes of its previous holder. */
const BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED";
const BEGIN_SNAPSHOT = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = ${STATEMENT_MS};
  SET LOCAL idle_in_transaction_session_timeout = ${SNAPSHOT_IDLE_MS}`;

/** 64-bit integers are parsed as numbers: all values here are within the safe range. */
const types: CustomTypesConfig = {
  getTypeParser: ((id: number, format: "text" | "binary") =>
    id === INT8 || id === NUMERIC ? Number : parsers.getTypeParser(id, format)) as typeof parsers.getTypeParser,
};
const INT8 = 20;
const NUMERIC = 1_700;

export function clientConfig(connectionString: string, statementMs = STATEMENT_MS): ClientConfig {
  return {
    connectionString,
    types,
    connectionTimeoutMillis: CONNECT_MS,
    query_timeout: statementMs + RESPONSE_MARGIN_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    application_name: "berth",
  };
}

/** True if the connection, including its password, can be read by an eavesdropper. */
export function isUnencrypted(url: string): boolean {
  const { ssl, host } = new Client(clientConfig(url));
  return !ssl && !/^(?:127\.|::1$|localhost$|\/)/.test(host);
}

/**
 * Waits for the lock and holds it until the transaction ends. Locks must be taken in this order: tenants, contents by
 * CID, chains of the audit log by tenant, and finally the counter of changes.
 */
export async function lock(run: RunSql, kind: LockKind, name: string): Promise<void> {
  await run(lockStatement(kind, name));
}

type LockKind = "upgrade" | "keys" | "tenant" | "secrets" | "lease" | "retention";

/** The statement for a lock. It has no parameters, so it can be combined with other statements. */
export function lockStatement(kind: LockKind, name: string): string {
  const key = createHash("sha256").update(`${kind} ${name}`).digest().readBigInt64BE();
  return `SELECT pg_advisory_xact_lock(${key})`;
}

const READ_ONLY = "25006";

/** True for an error reported by the database, whose code is a SQLSTATE. */
function isDatabaseError(error: unknown): boolean {
  return error instanceof DatabaseError;
}

function errorCode(error: unknown): string {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === "string" ? code : "";
}

/** True after a serialization conflict, a deadlock, or a missing foreign key. */
function isRetryable(error: unknown): boolean {
  const isFailure = error instanceof BerthError && error.code === "store_failed";
  return isFailure && ["40001", "40P01", "23503"].includes(errorCode(error.cause));
}

/** True if the session ended: the connection failed, or an administrator or a shutdown ended it. */
function isConnectionLost(code: string): boolean {
  return code.startsWith("08") || code.startsWith("57P");
}

export function asStoreFailure(error: unknown): BerthError {
  if (error instanceof BerthError) return error;
  return new BerthError("store_failed", describeFailure(error), { cause: error });
}

const UNREACHABLE = "the database cannot be reached; nothing was changed; try again later";
const TOO_LONG = "the database took too long, and nothing was changed; try again";

/** Describes the failure without addresses, names or values, as callers see it. The log contains the cause. */
function describeFailure(error: unknown): string {
  const code = errorCode(error);
  if (code === "53100") return "the disk of the database is full, and nothing was changed; free some space";
  if (code === READ_ONLY || code === "55000")
    return "the database is read-only; BERTH_DATABASE must name the server that accepts writes";
  if (code.startsWith("28") || code === "3D000")
    return "the database rejects the user or database name in BERTH_DATABASE";
  if (code === "42501")
    return "the user in BERTH_DATABASE lacks privileges: make it the owner of the database and its tables";
  if (code === "57014" || code === "55P03" || code === "25P03") return TOO_LONG;
  if (code === "22021") return "a text contains a NUL character, which the database cannot store";
  if (code === "54000") return "a name or key is too long for the database, which accepts about 2,500 bytes";
  if (code === "53300") return "the database accepts no more connections; each Berth node needs up to 14";
  if (isDatabaseError(error) && !isConnectionLost(code) && !code.startsWith("53"))
    return `the database rejected a statement (SQLSTATE ${code}); nothing was changed`;
  if (code === "ERR_INVALID_URL") return "BERTH_DATABASE is not a valid connection URI: see docs/settings.md";
  if (/CERT|SIGNATURE|TLS/.test(code) || /\bSSL\b/.test((error as Error).message))
    return "the TLS connection to the database failed: see sslmode in BERTH_DATABASE, and the log";
  return UNREACHABLE;
}
