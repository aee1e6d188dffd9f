import { DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler } from "kysely";

interface Database {
  person: { id: number; first_name: string };
}

const db = new Kysely<Database>({
  dialect: {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  },
});

/** Writes a query. */
export function query(): { sql: string; parameters: readonly unknown[] } {
  const { sql, parameters } = db.selectFrom("person").select("id").where("first_name", "=", "Arnold").compile();
  return { sql, parameters };
}
