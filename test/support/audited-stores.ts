import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, mock } from "node:test";
import { Client } from "pg";
import Database from "#better-sqlite3";
import { clientConfig } from "../../src/store/postgres/database.ts";
import { openPostgresStore } from "../../src/store/postgres/postgres-store.ts";
import { DATABASE_FILE } from "../../src/store/sqlite/open-database.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import type { SecretStore, Store } from "../../src/store/store.ts";
import { setClock } from "./clock.ts";
import { ON_POSTGRES } from "./postgres.ts";
import { storesInSuite } from "./store-databases.ts";

/** An empty store whose audit log a test attacks. */
export interface AuditedPlace {
  readonly kind: "SQLite" | "Postgres";
  /** For `openWhere`: a folder, or the address of a database. */
  readonly where: string;
  /** Makes a command of Berth use it. */
  readonly ofCommand: { readonly args: readonly string[]; readonly env: NodeJS.ProcessEnv };
  open(): Promise<Store & SecretStore>;
  /** Changes it as an attacker with access to it could, in the SQL of SQLite; resolves with the number of changed rows. */
  tamper(sql: string): Promise<number>;
  put(column: string, value: unknown, arrival: number): Promise<void>;
  rows(sql: string, ...values: unknown[]): Promise<unknown[]>;
  /** Lets nothing be written into the log until the function that it resolves with is called. */
  closeLog(): Promise<() => Promise<unknown>>;
  /** Sets the time of this process and of the store. `reset` gives both their own again. */
  setClock(now: number): Promise<{ set(now: number): Promise<void>; reset(): Promise<void> }>;
  remove(): Promise<void>;
}

/** A suite over a store: in SQLite, or in Postgres in a run with `BERTH_TEST_STORE`. `make` is called for each test. */
export function onStore(what: string, suite: (make: () => Promise<AuditedPlace>, kind: AuditedPlace["kind"]) => void) {
  if (!ON_POSTGRES) return void describe(`${what}, in SQLite`, () => suite(async () => new FolderPlace(), "SQLite"));
  describe(`${what}, in Postgres`, () => {
    const { fresh } = storesInSuite();
    suite(async () => new DatabasePlace(await fresh()), "Postgres");
  });
}

class FolderPlace implements AuditedPlace {
  readonly kind = "SQLite";
  readonly where = mkdtempSync(join(tmpdir(), "berth-audit-"));
  readonly ofCommand = { args: ["--data", this.where], env: {} };

  open = () => openSqliteStore({ dataDir: this.where });
  tamper = async (sql: string) => this.#use((database) => database.prepare(sql).run().changes);
  rows = async (sql: string, ...values: unknown[]) => this.#use((database) => database.prepare(sql).all(...values));
  remove = async () => rmSync(this.where, { recursive: true, force: true });

  async put(column: string, value: unknown, arrival: number): Promise<void> {
    this.#use((database) => database.prepare(`UPDATE audit SET ${column} = ? WHERE arrival = ?`).run(value, arrival));
  }

  #use<T>(work: (database: Database.Database) => T): T {
    const database = new Database(join(this.where, DATABASE_FILE));
    try {
      return work(database);
    } finally {
      database.close();
    }
  }

  async closeLog() {
    await this.tamper("CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT raise(ABORT, 'the log is full'); END");
    return () => this.tamper("DROP TRIGGER full");
  }

  async setClock(now: number) {
    const clock = setClock(now);
    return { set: async (next: number) => clock.set(next), reset: async () => clock.reset() };
  }
}

class DatabasePlace implements AuditedPlace {
  readonly kind = "Postgres";
  readonly where: string;
  readonly ofCommand: AuditedPlace["ofCommand"];
  #client: Promise<Client> | undefined;
  #isRemoved = false;

  constructor(where: string) {
    this.where = where;
    this.ofCommand = { args: [], env: { BERTH_DATABASE: where } };
  }

  open = () => openPostgresStore({ database: this.where });

  async tamper(sql: string): Promise<number> {
    return (await this.#ask(inPostgres(sql))).rowCount ?? 0;
  }

  async put(column: string, value: unknown, arrival: number): Promise<void> {
    await this.#ask(`UPDATE audit SET ${column} = $1 WHERE arrival = $2`, [value, arrival]);
  }

  async rows(sql: string, ...values: unknown[]): Promise<unknown[]> {
    let place = 0;
    const numbered = sql.replaceAll("?", () => `$${++place}`);
    return (await this.#ask(numbered, values)).rows;
  }

  async closeLog() {
    await this.#ask(`CREATE FUNCTION full_log() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'the log is full'; END $$`);
    await this.#ask("CREATE TRIGGER full_log BEFORE INSERT ON audit EXECUTE FUNCTION full_log()");
    return () => this.#ask("DROP TRIGGER full_log ON audit");
  }

  async setClock(now: number) {
    const [own] = (await this.#ask("SELECT pg_get_functiondef('berth_now'::regproc) AS sql")).rows;
    const setOf = (time: number) =>
      this.#ask(`CREATE OR REPLACE FUNCTION berth_now() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
        AS 'SELECT ${Math.floor(time)}::bigint'`);
    await setOf(now);
    mock.timers.enable({ apis: ["Date"], now });
    return {
      set: async (next: number) => {
        mock.timers.setTime(next);
        await setOf(next);
      },
      reset: async () => {
        mock.timers.reset();
        if (!this.#isRemoved) await this.#ask(own!["sql"] as string);
      },
    };
  }

  async remove(): Promise<void> {
    this.#isRemoved = true;
    await (await this.#client)?.end();
  }

  async #ask(sql: string, values: unknown[] = []) {
    this.#client ??= (async () => {
      const client = new Client(clientConfig(this.where));
      await client.connect();
      return client;
    })();
    return (await this.#client).query<Record<string, unknown>>(sql, values);
  }
}

function inPostgres(sql: string): string {
  return sql
    .replaceAll(/x'([0-9a-f]*)'/g, String.raw`'\x$1'::bytea`)
    .replaceAll(/zeroblob\((\d+)\)/g, "decode(repeat('00', $1), 'hex')");
}
