import knex from "knex";
import "pg";

/** Asks a database. knex loads the driver that it is told by itself; the import has the bundle hold it. */
export async function query(at: string): Promise<unknown> {
  const db = knex({ client: "pg", connection: `postgres://postgres@${at}/postgres`, pool: { min: 0, max: 1 } });
  try {
    return await db<{ id: number; name: string }>("people").where("id", ">", 1).select("id", "name");
  } finally {
    await db.destroy();
  }
}
