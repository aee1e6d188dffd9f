import { Kysely, PostgresDialect } from "kysely";
import pg from "pg";

interface Database {
  people: { id: number; name: string };
}

/** Reads from a database. */
export async function query(at: string): Promise<unknown> {
  const pool = new pg.Pool({ connectionString: `postgres://postgres@${at}/postgres`, max: 1 });
  const db = new Kysely<Database>({ dialect: new PostgresDialect({ pool }) });
  const rows = await db.selectFrom("people").selectAll().where("name", "=", "Grace").execute();
  await db.destroy();
  return rows;
}
