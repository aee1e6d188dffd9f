import { openPostgresStore } from "../../src/store/postgres/postgres-store.ts";
import type { TestPostgres } from "./postgres.ts";

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
