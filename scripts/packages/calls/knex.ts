import knex from "knex";

const db = knex({ client: "pg" });

/** Writes a query. */
export function query(): { sql: string; bindings: readonly unknown[] } {
  const { sql, bindings } = db("users").where({ active: true }).andWhere("age", ">", 20).select("id", "name").toSQL();
  return { sql, bindings };
}
