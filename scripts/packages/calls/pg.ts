import pg from "pg";

/** Queries over a pool, with parameters and in a transaction that is rolled back. */
export async function queried(at: string): Promise<{ rows: unknown; inside: unknown; after: unknown; error: string }> {
  const pool = new pg.Pool({ connectionString: `postgres://postgres@${at}/postgres`, max: 2 });
  const { rows } = await pool.query("select name, $2::int + 1 as next from people where id = $1", [1, 41]);
  const client = await pool.connect();
  await client.query("begin");
  await client.query("insert into people values (3, $1)", ["it's"]);
  const inside = (await client.query("select name from people where id = 3")).rows;
  await client.query("rollback");
  client.release();
  const after = (await pool.query("select name from people where id = 3")).rows;
  const error: unknown = await pool.query("select nothing").catch((error: unknown) => error);
  await pool.end();
  return { rows, inside, after, error: error instanceof pg.DatabaseError ? error.message : "" };
}
