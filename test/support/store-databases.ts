import { openPostgresStore } from "../../src/store/postgres/postgres-store.ts";
import { startPostgres, type TestPostgres } from "./postgres.ts";
import { inSuite } from "./suite.ts";

/** Returns a function that makes a database with the tables of a store and nothing in them, and returns its address. */
export async function storeDatabases(postgres: Pick<TestPostgres, "url" | "query">): Promise<() => Promise<string>> {
  const urlOf = (name: string): string => postgres.url.replace(/[^/]+$/, name);
  let made = 0;
  await postgres.query("CREATE DATABASE berth_empty");
  await (await openPostgresStore({ database: urlOf("berth_empty") })).close();
  return async () => {
    const name = `berth_${++made}`;
    await postgres.query(`CREATE DATABASE ${name} TEMPLATE berth_empty`);
    return urlOf(name);
  };
}

/** A Postgres for the tests of the suite or file that calls this, and the function that makes databases of stores in it. */
export function storesInSuite(): { postgres: TestPostgres; fresh: () => Promise<string> } {
  let fresh: (() => Promise<string>) | undefined;
  const postgres = inSuite(async () => {
    const started = await startPostgres();
    fresh = await storeDatabases(started);
    return started;
  });
  return { postgres, fresh: () => fresh!() };
}
